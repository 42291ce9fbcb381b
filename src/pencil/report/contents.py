"""The contents of a report, collected from a finished run in one pass over its labels."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from pencil.data import Beside
from pencil.engine import read_metrics
from pencil.escape import shown
from pencil.estimates import Interval
from pencil.report.curves import Line
from pencil.report.findings import Expected, LabelCounts, TruthCounts, find
from pencil.report.matrix import Transition, transition
from pencil.report.near import Near, near_cases, rows_to_show
from pencil.report.source import Example, Source
from pencil.report.text import sentence
from pencil.results import Estimates, NearRows, VerdictRule, alarm_record, alarm_sentence
from pencil.run import LabelTable, RunDirectory

NO_EPOCHS = "No training curves: metrics.jsonl holds no epochs."


@dataclass(frozen=True)
class Report:
    """The contents of a report on one run. Names and ids are already escaped for display.

    Attributes:
        run: The run's folder.
        finished: The day the run ended, in UTC.
        summary: The run's ``summary.json``.
        environment: Versions, machine and command.
        settings: The whole configuration, as plain values.
        toml: The configuration as TOML.
        class_names: The classes.
        lines: The metrics of each epoch.
        rule: The verdict rule.
        estimates: The noise of the labels.
        alarms: Reasons not to trust the run or its estimates; those of the estimates first.
        counts: Sums over all rows.
        transition: The estimated transition matrix.
        corrections: The most confident of the rows to relabel.
        reviews: The least confident of the rows to review.
        near: Near-identical rows and outliers; None if the rows were not compared.
        audit: What an audit of the run's labels found, as sentences.
        notes: What the report leaves out, and why.
        choices: What the run decided by itself while it trained, and why.
    """

    run: str
    finished: str
    summary: dict[str, Any]
    environment: dict[str, Any]
    settings: dict[str, Any]
    toml: str
    class_names: tuple[str, ...]
    lines: list[Line]
    rule: VerdictRule
    estimates: Estimates
    alarms: list[str]
    counts: LabelCounts
    transition: Transition
    corrections: list[Example]
    reviews: list[Example]
    near: Near | None
    audit: list[str]
    notes: list[str]
    choices: list[str]

    @property
    def has_upper_end(self) -> bool:
        """Whether shares of errors have one: not from one label for each row."""
        return self.estimates.rate.high < 1

    def expected(self, errors: Expected) -> Interval:
        """The expected share of errors, with bounds if there are any."""
        share = errors.share
        return share if self.has_upper_end else Interval(share.value, 0.0, 1.0)

    @property
    def totals(self) -> dict[str, Any]:
        """The numbers of examples, changes and verdicts, and the estimated shares with their bounds."""
        return {
            "examples": self.counts.rows,
            "labels_changed": self.counts.total_changed,
            **self.counts.totals,
            "wrong": asdict(self.estimates.rate),
            "suggested_wrong": asdict(self.estimates.suggested_error),
            "false_relabels": asdict(self.expected(self.counts.false_relabels)),
            **({} if self.near is None else asdict(self.near.counts)),
        }

    @property
    def command(self) -> str:
        """The command that started the run."""
        return shown(shlex.join(["pencil", *self.environment.get("command", [""])[1:]]), 2000)

    @property
    def rerun(self) -> str:
        """The command that repeats the run."""
        config = shlex.quote(f"{self.run}/config.toml")
        return f"pencil train --config {config} --out {shlex.quote(f'{self.run}-again')}"


def gather(
    directory: RunDirectory,
    *,
    examples: int = 24,
    read_data: bool = True,
    changed_data: bool = False,
    max_false_relabels: float | None = None,
    beside: Beside | None = None,
    audit: Sequence[str] = (),
) -> Report:
    """Collect the report of a finished run.

    Args:
        directory: The run.
        examples: The number of examples in each list.
        read_data: Whether to read the run's data, for thumbnails and true labels.
        changed_data: Whether to accept data that changed since the run.
        max_false_relabels: Replaces the share of the run's verdict rule.
        beside: Images or texts to show for the rows.
        audit: What an audit of the labels found, as sentences.
    """
    directory.require_finished()
    source = Source.of(directory, changed_data=changed_data, beside=beside) if read_data else Source()
    table = LabelTable.open(directory, max_false_relabels)
    names = table.class_names
    wanted = rows_to_show(table.near, examples)
    found = find(table.chunks(), len(names), examples=examples, truth=source.truth, rows=wanted)
    near = near_cases(table.near, found.asked, examples)
    source = source.checked([*found.corrections, *found.reviews, *found.asked.values()])
    if source.rows is None:
        found.counts.truth = TruthCounts(len(names))
    (corrections, reviews, *others), note = source.pictured([found.corrections, found.reviews, *near.lists])
    config, lines = directory.config, read_metrics(directory.metrics)
    return Report(
        run=shown(str(directory.path), 1000),
        finished=_day(directory),
        summary=directory.summary,
        environment=directory.environment,
        settings=config.table(),
        toml=config.toml(),
        class_names=tuple(shown(name) for name in names),
        lines=[*lines],
        rule=table.rule,
        estimates=table.estimates,
        alarms=alarms_of(table.estimates, directory.summary),
        counts=found.counts,
        transition=transition(table.estimates, found.counts),
        corrections=corrections,
        reviews=reviews,
        near=None if table.near is None else _near(table.near, others),
        audit=[sentence(shown(words, 2000)) for words in audit],
        notes=[words for words in (note, source.matched, None if lines else NO_EPOCHS) if words is not None],
        choices=choices_of(directory.summary),
    )


def _near(found: NearRows, examples: list[list[Example]]) -> Near:
    *groups, far = examples
    scores = [float(found.outlier[example.case.row]) for example in far]
    return Near(found.counts, groups, list(zip(far, scores, strict=True)))


def alarms_of(estimates: Estimates, summary: Mapping[str, Any]) -> list[str]:
    """The alarms of the estimates, then those of the training, as sentences with their remedies."""
    records = [*map(alarm_record, estimates.alarms), *summary["alarms"]]
    return [sentence(shown(alarm_sentence(record), 2000)) for record in records]


def choices_of(summary: Mapping[str, Any]) -> list[str]:
    """What the run decided by itself, as sentences."""
    told = (each for each in summary.get("choices", ()) if each["reason"])
    return [sentence(shown(f"epoch {each['epoch']}: {each['reason']}", 2000)) for each in told]


def _day(directory: RunDirectory) -> str:
    written = (directory.path / "summary.json").stat().st_mtime
    return datetime.fromtimestamp(written, UTC).date().isoformat()
