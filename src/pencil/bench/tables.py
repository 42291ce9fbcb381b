"""Tables of results: methods by noises, mean ± standard deviation over seeds, and paired differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pencil.bench.checks import DEFAULT
from pencil.bench.results import Line
from pencil.bench.stats import Difference, Spread
from pencil.errors import ConfigError, did_you_mean

Style = Literal["markdown", "latex"]
Values = Mapping[int, float]
"""A value by seed."""


@dataclass(frozen=True)
class Metric:
    """A column of the results, and how tables show it."""

    field: str
    title: str
    scale: float = 1.0
    digits: int = 1


METRICS = {
    "last": Metric("test_last", "test accuracy of the last epoch, %", 100),
    "expert": Metric("test_expert", "test accuracy of network and prototypes together, last epoch, %", 100),
    "best": Metric("test_best", "test accuracy of the epoch best on noisy validation rows, %", 100),
    "validation": Metric("validation_last", "agreement with held-out given labels, last epoch, %", 100),
    "labels_before": Metric("labels_before", "right labels as given, %", 100),
    "labels_after": Metric("labels_after", "right labels after training, %", 100),
    "precision": Metric("precision", "precision of suspected labels, %", 100),
    "recall": Metric("recall", "recall of wrong labels, %", 100),
    "f1": Metric("f1", "F1 of finding wrong labels, %", 100),
    "auroc": Metric("auroc", "AUROC of finding wrong labels by the method's own labels, %", 100),
    "average_precision": Metric("average_precision", "average precision of the same order, %", 100),
    "precision_at_100": Metric("precision_at_100", "wrong labels in the first 100 looks, %", 100),
    "precision_at_1_percent": Metric(
        "precision_at_1_percent", "wrong labels in the first 1 % of rows, %", 100
    ),
    "posterior_labels_after": Metric(
        "posterior_labels_after", "right labels after every verdict relabel was applied, %", 100
    ),
    "posterior_f1": Metric("posterior_f1", "F1 of finding wrong labels by p_wrong > 0.5, %", 100),
    "posterior_auroc": Metric("posterior_auroc", "AUROC of finding wrong labels by p_wrong, %", 100),
    "posterior_average_precision": Metric(
        "posterior_average_precision", "average precision in order of p_wrong, %", 100
    ),
    "posterior_precision_at_100": Metric(
        "posterior_precision_at_100", "wrong labels in the first 100 looks by p_wrong, %", 100
    ),
    "posterior_precision_at_1_percent": Metric(
        "posterior_precision_at_1_percent", "wrong labels in the first 1 % of rows by p_wrong, %", 100
    ),
    "calibration_error": Metric("calibration_error", "expected calibration error of p_wrong, points", 100),
    "seconds": Metric("seconds", "seconds of training"),
    "forward_passes": Metric("forward_passes", "examples sent forward in training", digits=0),
}


@dataclass(frozen=True)
class Sheet:
    """A table before it has a style: a title, and text in rows under a header."""

    title: str
    header: list[str]
    rows: list[list[str]]


def tabulate(lines: Sequence[Line], metrics: Sequence[str] = (), style: Style = "markdown") -> str:
    """For every data set a table of means ± standard deviations; best and last where no metric is named."""
    _check_lines(lines)
    chosen = list(metrics) or [
        name for name in ("best", "last") if any(_value(line, METRICS[name]) is not None for line in lines)
    ]
    sheets = [_spreads(data, _of(lines, data), chosen) for data in _distinct(lines, "data")]
    return _render(sheets, style)


def compare(
    lines: Sequence[Line], against: str, metrics: Sequence[str] = ("last",), style: Style = "markdown"
) -> str:
    """For every data set a table of differences to a method, paired by seed, with 95 % confidence intervals."""
    _check_lines(lines)
    labels = list(dict.fromkeys(label_of(line) for line in lines))
    if against not in labels:
        hint = did_you_mean(against, labels) or f"; known: {', '.join(labels)}"
        raise ConfigError(f"--against {against}: the results have no such method{hint}")
    sheets = [_differences(data, _of(lines, data), against, metrics) for data in _distinct(lines, "data")]
    return _render(sheets, style)


def label_of(line: Line) -> str:
    """A method, with its variant where it is one."""
    method, variant = str(line["method"]), str(line["variant"])
    return method if variant == DEFAULT else f"{method}/{variant}"


def _spreads(data: str, lines: Sequence[Line], metrics: Sequence[str]) -> Sheet:
    def show(label: str, noise: str, metric: Metric) -> str:
        values = _values(lines, label, noise, metric)
        return _spread(Spread.of(list(values.values())), metric.digits) if values else "–"

    title = f"{data}: {_titles(metrics)}; mean ± standard deviation over {_seeds(lines)}"
    return _sheet(title, lines, metrics, show)


def _differences(data: str, lines: Sequence[Line], against: str, metrics: Sequence[str]) -> Sheet:
    def show(label: str, noise: str, metric: Metric) -> str:
        mine, other = (_values(lines, name, noise, metric) for name in (label, against))
        seeds = [seed for seed in mine if seed in other]
        if not seeds:
            return "–"
        return _difference(Difference.of([mine[s] for s in seeds], [other[s] for s in seeds]), metric.digits)

    title = (
        f"{data}: {_titles(metrics)}, minus that of {against}; paired by seed, {_seeds(lines)}, "
        "with 95 % confidence intervals"
    )
    return _sheet(title, lines, metrics, show, without=against)


def _sheet(
    title: str,
    lines: Sequence[Line],
    metrics: Sequence[str],
    show: Callable[[str, str, Metric], str],
    without: str | None = None,
) -> Sheet:
    noises = _distinct(lines, "noise")
    labels = [label for label in dict.fromkeys(map(label_of, lines)) if label != without]
    several = len(metrics) > 1
    rows = [
        [label, *([name] if several else []), *(show(label, noise, METRICS[name]) for noise in noises)]
        for label in labels
        for name in metrics
    ]
    return Sheet(title, ["method", *([""] if several else []), *noises], rows)


def _values(lines: Sequence[Line], label: str, noise: str, metric: Metric) -> Values:
    found = {
        line["seed"]: _value(line, metric)
        for line in lines
        if line["noise"] == noise and label_of(line) == label
    }
    return {seed: metric.scale * value for seed, value in sorted(found.items()) if value is not None}


def _value(line: Line, metric: Metric) -> float | None:
    value: float | None = line.get(metric.field)
    return value


def _spread(spread: Spread, digits: int) -> str:
    mean = f"{spread.mean:,.{digits}f}"
    return mean if spread.std is None else f"{mean} ± {spread.std:,.{digits}f}"


def _difference(difference: Difference, digits: int) -> str:
    mean, half = difference.mean, difference.half_width
    text = f"{mean:+,.{digits}f}"
    return text if half is None else f"{text} [{mean - half:+,.{digits}f}, {mean + half:+,.{digits}f}]"


def _titles(metrics: Sequence[str]) -> str:
    if len(metrics) == 1:
        return METRICS[metrics[0]].title
    return "; ".join(f"{name}: {METRICS[name].title}" for name in metrics)


def _seeds(lines: Sequence[Line]) -> str:
    cells = {(line["noise"], label_of(line), line["seed"]) for line in lines}
    counts = sorted(set(Counter(cell[:2] for cell in cells).values()))
    text = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{text} seed{'' if text == '1' else 's'}"


def _of(lines: Sequence[Line], data: str) -> list[Line]:
    return [line for line in lines if line["data"] == data]


def _distinct(lines: Sequence[Line], field: str) -> list[str]:
    return list(dict.fromkeys(line[field] for line in lines))


def _check_lines(lines: Sequence[Line]) -> None:
    if not lines:
        raise ConfigError("the results are empty; no cell of the grid has ended yet")


def _render(sheets: Sequence[Sheet], style: Style) -> str:
    render = _markdown if style == "markdown" else _latex
    return "\n\n".join(render(sheet) for sheet in sheets)


def _markdown(sheet: Sheet) -> str:
    lines = [sheet.header, ["---"] * len(sheet.header), *sheet.rows]
    return "\n".join([sheet.title, "", *(f"| {' | '.join(line)} |" for line in lines)])


def _latex(sheet: Sheet) -> str:
    columns = "l" * (len(sheet.header) - len(_noises(sheet))) + "r" * len(_noises(sheet))
    body = [f"{' & '.join(map(_escape, row))} \\\\" for row in sheet.rows]
    return "\n".join(
        [
            f"% {sheet.title}",
            f"\\begin{{tabular}}{{{columns}}}",
            "\\hline",
            f"{' & '.join(map(_escape, sheet.header))} \\\\",
            "\\hline",
            *body,
            "\\hline",
            "\\end{tabular}",
        ]
    )


def _noises(sheet: Sheet) -> list[str]:
    return sheet.header[2 if len(sheet.header) > 1 and not sheet.header[1] else 1 :]


def _escape(text: str) -> str:
    text = text.replace("_", r"\_").replace("%", r"\%")
    return text.replace("±", r"$\pm$").replace("–", "--")
