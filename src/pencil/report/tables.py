"""Tables of the report: estimates beside the truth where it is known, the classes, and the largest confusions."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from pencil.estimates import Interval
from pencil.report.charts import Point
from pencil.report.contents import Report
from pencil.report.findings import DEVIATIONS
from pencil.report.matrix import true_shares
from pencil.results import KEEP, RELABEL, REVIEW

MOST_ROWS = 500
MOST_CONFUSIONS = 15


@dataclass(frozen=True)
class Estimate:
    """One estimated share, with the true one if it is known."""

    name: str
    share: Interval
    truth: float | None


@dataclass(frozen=True)
class ClassRow:
    """One class.

    Attributes:
        name: The name of the class.
        given: Rows with this given class.
        suggested: Rows with this suggested class.
        wrong: Estimated share of the rows with this given class whose label is wrong.
        truth: The true share; None if it is unknown.
        relabel: Rows with this given class to relabel.
        review: Rows with this given class to review.
        confusion: The class most often suggested instead and its count; None if no row changed.
    """

    name: str
    given: int
    suggested: int
    wrong: Interval
    truth: float | None
    relabel: int
    review: int
    confusion: tuple[str, int] | None

    @property
    def number(self) -> int:
        """Estimated number of wrong labels."""
        return round(self.wrong.value * self.given)


@dataclass(frozen=True)
class Confusion:
    """A mistake in the given labels; ``share`` is relative to all rows of the true class."""

    true: str
    given: str
    share: Interval
    truth: float | None


def estimates(report: Report) -> list[Estimate]:
    """The estimates about all rows."""
    found, counts, truth = report.estimates, report.counts, report.counts.truth
    kept = truth.wrong[:, KEEP].sum()
    rows = [
        ("Given labels that are wrong", found.rate, truth.total_wrong, counts.rows),
        ("Suggested labels that are wrong", found.suggested_error, truth.suggested_wrong, counts.rows),
        (
            "Labels to relabel whose suggestion is wrong",
            report.expected(counts.false_relabels),
            truth.false_relabels,
            counts.total(RELABEL),
        ),
        ("Labels to keep that are wrong", report.expected(counts.false_keeps), int(kept), counts.total(KEEP)),
    ]
    return [
        Estimate(name, share, number / total if truth.rows else None)
        for name, share, number, total in rows
        if total
    ]


def class_rows(report: Report, most: int = MOST_ROWS) -> list[ClassRow]:
    """The ``most`` classes with the most labels that seem wrong, in descending order."""
    shares = torch.tensor([value for value, _, _ in report.estimates.per_class], dtype=torch.float64)
    order = (shares * report.counts.given).argsort(descending=True, stable=True)[:most].tolist()
    confusions = report.counts.pairs.commonest()
    return [_class_row(index, report, confusions.get(index)) for index in order]


def _class_row(index: int, report: Report, confusion: tuple[int, int] | None) -> ClassRow:
    counts, names, given = report.counts, report.class_names, int(report.counts.given[index])
    truth = int(counts.truth.wrong[index].sum()) / max(given, 1) if counts.truth.rows else None
    return ClassRow(
        name=names[index],
        given=given,
        suggested=int(counts.suggested[index]),
        wrong=Interval(*report.estimates.per_class[index]),
        truth=truth,
        relabel=int(counts.verdicts[index, RELABEL]),
        review=int(counts.verdicts[index, REVIEW]),
        confusion=None if confusion is None else (names[confusion[0]], confusion[1]),
    )


def confusions(report: Report, most: int = MOST_CONFUSIONS) -> list[Confusion]:
    """The largest entries of the transition matrix besides its diagonal."""
    pairs, names, truth = report.estimates.pairs[:most], report.class_names, report.counts.truth
    classes = sorted({number for true, given, *_ in pairs for number in (true, given)})
    place = {number: index for index, number in enumerate(classes)}
    shares = true_shares(truth, classes) if truth.rows and classes else None
    return [
        Confusion(
            names[true],
            names[given],
            Interval(*bounds),
            None if shares is None else shares[place[true]][place[given]],
        )
        for true, given, *bounds in pairs
    ]


def reliability(report: Report) -> list[Point]:
    """Labels by probability of being wrong, and how many are; empty ranges are left out."""
    counts = report.counts
    rows: list[int] = counts.histogram.sum(0).tolist()
    sums: list[float] = counts.bin_sums.tolist()
    wrong: list[int] = counts.truth.bins.tolist()
    return [
        Point(total / number, binomial(true, number), number)
        for number, total, true in zip(rows, sums, wrong, strict=True)
        if number
    ]


def binomial(successes: int, rows: int) -> Interval:
    """A share with its 95 % interval (Wilson)."""
    share, z2 = successes / rows, DEVIATIONS**2
    middle = (share + z2 / (2 * rows)) / (1 + z2 / rows)
    reach = DEVIATIONS * math.sqrt(share * (1 - share) / rows + z2 / (4 * rows**2)) / (1 + z2 / rows)
    return Interval(share, max(middle - reach, 0.0), min(middle + reach, 1.0))
