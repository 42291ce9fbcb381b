"""Runs of the paper's presets with fewer epochs: what may differ, how far they are, and their table.

``reproduction.py`` uses this. Compared with its preset, such a run may have

- fewer epochs in any phase; boundaries of a learning rate at the same share of the phase, rounded to whole epochs
- another ``method.label_rate`` and ``train.precision``

Its line in results/reproduction_shorter.jsonl holds these settings, so that the page can name what differs. It may be
unfinished, and is then shown as such; recorded again later, the run replaces its line.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pencil.engine import read_json_lines
from pencil.results import summarize
from pencil.run import RunDirectory

RECORDED = Path(__file__).parent / "results" / "reproduction_shorter.jsonl"
MAY_DIFFER = ("method.label_rate", "train.precision")
ROUNDING = 0.5  # epochs, of a boundary
Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Shorter:
    """A run with fewer epochs than its preset; accuracies in percent.

    Attributes:
        preset, flags: The command on the page that it shortens.
        seed: The seed of the run.
        settings: The settings that differ from the command's, by name; always ``phases``.
        done: Epochs that are done.
        finished: Whether the run has ended.
        best: Test accuracy of the epoch that is best on the held-out rows, of those done.
        last: Test accuracy of the last epoch done.
        right_labels: Share of right labels, given and after the last epoch done.
        where: The machine.
    """

    preset: str
    flags: tuple[str, ...]
    seed: int
    settings: Settings
    done: int
    finished: bool
    best: float | None
    last: float
    right_labels: tuple[float, float] | None
    where: str

    @property
    def planned(self) -> int:
        """All epochs of its schedule."""
        return sum(phase["epochs"] for phase in self.settings["phases"])

    @property
    def experiment(self) -> tuple[Any, ...]:
        """What identifies it: equal for two records of one run."""
        return (self.preset, self.flags, self.seed, json.dumps(self.settings, sort_keys=True))


# What may differ


def differing(ours: Settings, papers: Settings) -> dict[str, Any]:
    """Our values of all settings that differ, named ``section.setting``, or by one word where there is no section."""
    mine, other = flat(ours), flat(papers)
    return {name: mine.get(name) for name in sorted({*mine, *other}) if mine.get(name) != other.get(name)}


def flat(settings: Settings) -> dict[str, Any]:
    """Settings by name; what is nested deeper is one value."""
    names: dict[str, Any] = {}
    for name, value in settings.items():
        nested = {f"{name}.{key}": each for key, each in value.items()} if isinstance(value, dict) else {}
        names |= nested or {name: value}
    return names


def refused(ours: Settings, papers: Settings) -> list[str]:
    """The names of settings that differ and must not; none for a run that only has a shorter schedule."""
    found = [name for name in differing(ours, papers) if name not in (*MAY_DIFFER, "phases")]
    return found if is_shortened(ours["phases"], papers["phases"]) else [*found, "phases"]


def is_shortened(ours: Sequence[Settings], papers: Sequence[Settings]) -> bool:
    """Whether phases are the paper's with fewer epochs in all, and in none more."""
    fewer = sum(phase["epochs"] for phase in ours) < sum(phase["epochs"] for phase in papers)
    return fewer and len(ours) == len(papers) and all(map(_is_part_of, ours, papers))


def _is_part_of(ours: Settings, papers: Settings) -> bool:
    """Whether a phase is the paper's, of which it has all epochs or a share."""
    if not 0 < ours["epochs"] <= papers["epochs"] or ours["name"] != papers["name"]:
        return False
    (rate, boundaries), (wanted, full) = (_rate_of(phase) for phase in (ours, papers))
    share = ours["epochs"] / papers["epochs"]
    return rate == wanted and all(
        abs(ours - share * papers) <= ROUNDING for ours, papers in zip(boundaries, full, strict=True)
    )


def _rate_of(phase: Settings) -> tuple[Any, list[float]]:
    """A learning rate without its boundaries, and these."""
    rate = phase["learning_rate"]
    if not isinstance(rate, dict):
        return rate, []
    return {key: value for key, value in rate.items() if key != "boundaries"}, rate.get("boundaries", [])


# What a run has reached


def measured(directory: RunDirectory) -> dict[str, Any]:
    """The fields of a record that say how far a run is, finished or not."""
    lines = read_json_lines(directory.metrics)
    if not lines:
        raise SystemExit(f"{directory.path}: no epoch is done yet; record it later")
    found = summarize(lines, num_rows=1)  # the number of rows decides about alarms alone
    best, right = found.get("best"), [line["labels_correct"] for line in lines if "labels_correct" in line]
    return {
        "done": found["last"]["epoch"],
        "finished": directory.is_finished,
        "best": None if best is None else _percent(best["test_accuracy"]),
        "last": _percent(found["last"]["test_accuracy"]),
        "right_labels": (_percent(right[0]), _percent(right[-1])) if right else None,
    }


def _percent(share: float) -> float:
    return round(100 * share, 2)


def recorded() -> list[Shorter]:
    """All records."""
    return [_record_of(line) for line in read_json_lines(RECORDED)]


def _record_of(line: dict[str, Any]) -> Shorter:
    right = line["right_labels"]
    return Shorter(**{**line, "flags": tuple(line["flags"]), "right_labels": right and tuple(right)})


def add(record: Shorter) -> None:
    """Write a record in place of an earlier one of the same experiment."""
    others = [each for each in recorded() if each.experiment != record.experiment]
    text = "".join(json.dumps(asdict(each)) + "\n" for each in [*others, record])
    RECORDED.write_text(text, encoding="utf-8")


# The table


HEAD = """## The paper's experiments at a shorter schedule

**These are not the paper's results, and none of them counts as run**: each has the settings of a command below, but
fewer epochs and what the column names. *best* and *last* are defined [below](#how-to-run-the-papers-experiments); for a
run that is not finished they are those of the epochs done so far, and may still rise or fall.
"""
COLUMNS = (
    *("experiment", "paper, best", "paper, last", "best", "last", "right labels, given → now"),
    *("epochs", "differs from the command below", "seed, machine"),
)


def table_line(run: Shorter, papers: Settings, method: str, figures: tuple[str, str]) -> str:
    """A record as a line of Markdown, beside the paper's best and last figures."""
    best = "–" if run.best is None else f"{run.best:.2f}"
    right = "–" if run.right_labels is None else "{:.1f} → {:.1f} %".format(*run.right_labels)
    words = [f"{run.preset.removeprefix('paper:')}, {method}", *figures, best, f"{run.last:.2f}", right]
    return f"| {' | '.join([*words, progress(run), '; '.join(protocol(run, papers)), f'{run.seed}, {run.where}'])} |"


def progress(run: Shorter) -> str:
    """Epochs done of those planned, and whether more will follow."""
    epochs = f"{run.done} of {run.planned}"
    if not run.finished:
        return f"**epoch {epochs}, not finished**"
    return epochs if run.done == run.planned else f"{epochs}, ended early"


def protocol(run: Shorter, papers: Settings) -> Iterator[str]:
    """What differs from the preset, in words."""
    epochs = {
        whose: " + ".join(str(phase["epochs"]) for phase in phases)
        for whose, phases in (("ours", run.settings["phases"]), ("papers", papers["phases"]))
    }
    yield f"{epochs['ours']} epochs instead of {epochs['papers']}"
    usual = flat(papers)
    for name, value in run.settings.items():
        if name != "phases":
            yield f"`{name}` {value} instead of {usual[name]}"


def command_line(run: Shorter, path: str) -> str:
    """The command that runs it."""
    words = ["pencil train", path, "--preset", run.preset, *run.flags]
    for name, value in run.settings.items():
        words += ["--set", shlex.quote(f"{name}={_inline(value)}")]
    return " ".join(words)


def _inline(value: Any) -> str:
    """A value as TOML on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_inline(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return json.dumps(value)
