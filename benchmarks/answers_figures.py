"""The figures and tables of ``answers``, from its lines."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

Line = dict[str, Any]
TRUSTED_ECE = 0.05  # above it an estimate must carry an alarm
SLACK = 0.02  # over the asked share of false relabels


def figures(lines: Sequence[Line]) -> dict[str, float]:
    """What is promised, measured over all problems and seeds."""
    cells = [line for line in lines if line["scorer"] == "estimates"]
    return {
        "cells": len(cells),
        **_calibration(cells),
        **_relabels(cells),
        **_rankings(lines, cells),
        "coverage_noise_rate": _share(line["rate_covered"] for line in cells),
        "coverage_noise_rate_without_alarm": _share(
            line["rate_covered"] for line in cells if not line["alarms"]
        ),
        "coverage_suggested_error": _share(line["suggested_error_covered"] for line in cells),
        "coverage_per_class": _mean(line["per_class_covered"] for line in cells),
    }


def _calibration(cells: Sequence[Line]) -> dict[str, float]:
    uniform = [line for line in cells if line["near_uniform"]]
    others = [line for line in cells if not line["near_uniform"]]
    return {
        "ece_near_uniform_worst": _worst(line["ece"] for line in uniform),
        "ece_after_answers_worst": _worst(line["ece_after_answers"] for line in others),
        "ece_worst": _worst(line["ece"] for line in cells),
        "alarms_missed": sum(line["ece"] > TRUSTED_ECE and not line["alarms"] for line in cells),
        "alarms_false": sum(bool(line["alarms"]) for line in uniform),
        "alarms": sum(bool(line["alarms"]) for line in cells),
    }


def _relabels(cells: Sequence[Line]) -> dict[str, float]:
    clean = [line for line in cells if line["noise"] == "clean"]
    return {
        "cells_within_asked_rate": sum(within(line, 5) and within(line, 10) for line in cells),
        "cells_within_asked_rate_after_answers": sum(
            within(line, 5, "_after_answers") and within(line, 10, "_after_answers") for line in cells
        ),
        "cells_within_5_percent": sum(within(line, 5) for line in cells),
        "cells_within_10_percent": sum(within(line, 10) for line in cells),
        "relabels_at_5_percent": sum(line["relabels_5"] for line in cells),
        "relabels_at_10_percent": sum(line["relabels_10"] for line in cells),
        "clean_changed_percent": _worst(100 * line["relabels_10"] / line["rows"] for line in clean),
    }


def within(line: Line, asked: int, when: str = "") -> bool:
    """Whether the true share of false relabels is at most the asked one and 2 points."""
    false, chosen = line[f"false_relabels_{asked}{when}"], line[f"relabels_{asked}{when}"]
    return bool(false <= (asked / 100 + SLACK) * chosen)


def _rankings(lines: Sequence[Line], cells: Sequence[Line]) -> dict[str, float]:
    """Mean ranking measures over the cells of each scorer, and in how many problems the estimates lead."""
    noisy = [line for line in cells if line["ap"] is not None]
    found = {
        "average_precision": _percent(line["ap"] for line in noisy),
        "auroc": _percent(line["auroc"] for line in noisy),
    }
    for scorer in sorted({line["scorer"] for line in lines} - {"estimates"}):
        own = [line for line in lines if line["scorer"] == scorer and line["ap"] is not None]
        shared = _shared(noisy, own)
        found[f"cells_with_{scorer}"] = len(own)
        found[f"average_precision_{scorer}"] = _percent(line["ap"] for line in own)
        found[f"average_precision_on_cells_of_{scorer}"] = _percent(line["ap"] for line in shared)
        found[f"auroc_{scorer}"] = _percent(line["auroc"] for line in own)
    found["problems_with_noise"] = len(_places(noisy))
    found["problems_with_cleanlab"] = len(_places(line for line in lines if line["scorer"] == "cleanlab"))
    for measure in ("ap", "auroc"):
        found[f"problems_{measure}_ahead_of_cleanlab"] = _ahead(lines, measure, {"cleanlab"})
        found[f"problems_{measure}_ahead_of_all"] = _ahead(lines, measure, None)
    return found


def _shared(cells: Sequence[Line], others: Sequence[Line]) -> list[Line]:
    """The lines whose problem and seed the others have too."""
    known = {(line["data"], line["noise"], line["seed"]) for line in others}
    return [line for line in cells if (line["data"], line["noise"], line["seed"]) in known]


def _ahead(lines: Sequence[Line], measure: str, rivals: set[str] | None) -> int:
    """Problems in which the mean of the estimates is at or above every rival's (None: all), on shared seeds."""
    return sum(_leads(lines, place, measure, rivals) for place in _places(lines))


def _leads(lines: Sequence[Line], place: tuple[str, str], measure: str, rivals: set[str] | None) -> bool:
    here = [line for line in lines if (line["data"], line["noise"]) == place and line["ap"] is not None]
    own = [line for line in here if line["scorer"] == "estimates"]
    others = {line["scorer"] for line in here} - {"estimates"}
    for rival in others if rivals is None else others & rivals:
        theirs = [line for line in here if line["scorer"] == rival]
        pairs = _shared(own, theirs), _shared(theirs, own)
        means = [statistics.fmean(line[measure] for line in part) if part else 0.0 for part in pairs]
        if round(means[0] - means[1], 4) < 0:
            return False
    return bool(own and others and (rivals is None or others & rivals))


def means_of(lines: Sequence[Line], place: tuple[str, str], measure: str) -> dict[str, float]:
    """The mean over seeds of a measure, by scorer."""
    found: dict[str, list[float]] = {}
    for line in lines:
        if (line["data"], line["noise"]) == place and line.get(measure) is not None:
            found.setdefault(line["scorer"], []).append(line[measure])
    return {scorer: statistics.fmean(values) for scorer, values in found.items()}


def tables(lines: Sequence[Line], summary: Mapping[str, float]) -> str:
    """Tables in Markdown: the figures, the estimates, and the rankings of all scorers; means over seeds."""
    goals = ["| goal | measured | |", "|---|---|---|", *(f"| {' | '.join(row)} |" for row in _goals(summary))]
    counted = ["| figure | |", "|---|---|", *(f"| `{name}` | {value} |" for name, value in summary.items())]
    return "\n\n".join(
        [
            "\n".join(goals),
            "\n".join(counted),
            "**Estimates, probabilities and relabels: means over seeds**",
            _estimates_table(lines),
            "**AUROC / average precision of finding wrong labels, in percent: means over seeds**",
            _rankings_table(lines),
        ]
    )


def _goals(summary: Mapping[str, float]) -> Iterator[tuple[str, str, str]]:
    """What was to be reached, what was measured, and whether that reaches it."""
    cells, compared = summary["cells"], summary.get("problems_with_cleanlab", 0)

    def row(goal: str, measured: str, reached: bool) -> tuple[str, str, str]:
        return goal, measured, "reached" if reached else "missed"

    for name, limit, where in (
        ("ece_near_uniform_worst", 0.03, "where noise is near-uniform or absent"),
        ("ece_after_answers_worst", 0.05, "elsewhere, after 100 answers"),
    ):
        yield row(f"worst ECE {where} ≤ {limit}", f"{summary[name]:.3f}", summary[name] <= limit)
    missed, false = summary["alarms_missed"], summary["alarms_false"]
    yield row("an alarm where ECE is above 0.05", f"{missed} missed, {false} false", missed == 0)
    within_rate = summary["cells_within_asked_rate"]
    yield row(
        "false relabels at most 2 points above the asked share in 95 % of the cells",
        f"{within_rate} of {cells}",
        within_rate >= 0.95 * cells,
    )
    covered, changed = summary["coverage_noise_rate"], summary["clean_changed_percent"]
    yield row(
        "the noise rate is at least what is stated in 99.5 % of the cells", f"{covered:.1%}", covered >= 0.995
    )
    yield row("clean labels changed: less than 0.5 %", f"{changed:.2f} %", changed < 0.5)
    for measure, words in (("ap", "average precision"), ("auroc", "AUROC")):
        ahead = summary[f"problems_{measure}_ahead_of_cleanlab"]
        goal = f"{words} at or above cleanlab's in three quarters of the problems"
        yield row(goal, f"{ahead} of {compared}", ahead >= 0.75 * compared)
    if "false_certificates_percent" in summary:
        share = summary["false_certificates_percent"]
        yield row("false certificates: at most 5 %", f"{share} %", share <= 5)
    if "confirmed_in_100_looks" in summary:
        own, other = summary["confirmed_in_100_looks"], summary["confirmed_in_100_looks_cleanlab"]
        yield row("real errors confirmed in 100 looks, and cleanlab's", f"{own} and {other}", own >= other)


def _estimates_table(lines: Sequence[Line]) -> str:
    head = (
        "| data | noise | true rate, % | estimated (at least) | ECE, % | after 100 answers | alarm | "
        "relabels at 5 %: number, false % | at 10 % | at 10 % after 100 answers | right labels, %: given → best |"
    )
    rows = [head, "|---" * head.count(" | ") + "|---|"]
    for place in _places(lines):
        cells = [line for line in lines if (line["data"], line["noise"]) == place]
        own = [line for line in cells if line["scorer"] == "estimates"]
        if own:
            rows.append(_estimates_row(place, own))
    return "\n".join(rows)


def _estimates_row(place: tuple[str, str], own: Sequence[Line]) -> str:
    def mean(name: str) -> str:
        return f"{100 * statistics.fmean(line[name] for line in own):.1f}"

    rate = f"{mean('rate')} ({mean('rate_low')})"
    alarms = sum(bool(line["alarms"]) for line in own)
    parts = [
        *place,
        mean("true_rate"),
        rate,
        mean("ece"),
        mean("ece_after_answers"),
        f"{alarms} of {len(own)}",
        *(_false_share(own, name) for name in ("5", "10", "10_after_answers")),
        f"{mean('right_given')} → {mean('right_best')}",
    ]
    return f"| {' | '.join(parts)} |"


def _false_share(own: Sequence[Line], asked: str) -> str:
    count = sum(line[f"relabels_{asked}"] for line in own)
    false = sum(line[f"false_relabels_{asked}"] for line in own)
    share = f", {100 * false / count:.1f}" if count else ""
    return f"{count / len(own):.0f}{share}"


def _rankings_table(lines: Sequence[Line]) -> str:
    scorers = sorted({line["scorer"] for line in lines}, key=lambda name: (name != "estimates", name))
    rows = [f"| data | noise | {' | '.join(scorers)} |", "|---" * (len(scorers) + 2) + "|"]
    for place in _places(lines):
        ap, area = means_of(lines, place, "ap"), means_of(lines, place, "auroc")
        if ap:
            values = [f"{100 * area[s]:.1f} / {100 * ap[s]:.1f}" if s in ap else "–" for s in scorers]
            rows.append(f"| {place[0]} | {place[1]} | {' | '.join(values)} |")
    return "\n".join(rows)


def _places(lines: Iterable[Line]) -> list[tuple[str, str]]:
    """Problems in the order of the lines."""
    return list(dict.fromkeys((line["data"], line["noise"]) for line in lines))


def _percent(values: Iterable[float]) -> float:
    return round(100 * _mean(values), 2)


def _share(values: Iterable[bool]) -> float:
    return _mean(float(value) for value in values)


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return round(statistics.fmean(found), 4) if found else 0.0


def _worst(values: Iterable[float]) -> float:
    return round(max(values, default=0.0), 4)
