"""Tables of the report: the classes and the confusions with the most changes."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from pencil.report.contents import Report
from pencil.report.findings import LabelCounts
from pencil.results import RELABEL, REVIEW

MOST_ROWS = 500
MOST_CONFUSIONS = 15


@dataclass(frozen=True)
class ClassRow:
    """One class.

    Attributes:
        name: The name of the class.
        given: Rows with this given class.
        suggested: Rows with this suggested class.
        changed: Rows with this given class and another suggested class.
        relabel: Rows with this given class to relabel.
        review: Rows with this given class to review.
        confidence: Mean confidence over the rows with this given class; None if there are no such rows.
        confusion: The class most often suggested instead and its count; None if no row changed.
    """

    name: str
    given: int
    suggested: int
    changed: int
    relabel: int
    review: int
    confidence: float | None
    confusion: tuple[str, int] | None

    @property
    def share(self) -> float:
        """The share of changed rows."""
        return self.changed / self.given if self.given else 0.0


@dataclass(frozen=True)
class Confusion:
    """A suggested change and its count; ``share`` is relative to all rows with the given class."""

    given: str
    suggested: str
    count: int
    share: float


def class_rows(report: Report, most: int = MOST_ROWS) -> list[ClassRow]:
    """The ``most`` classes with the most changes, in descending order."""
    counts = report.counts
    order = counts.changed.argsort(descending=True, stable=True)[:most].tolist()
    confusions = counts.pairs.commonest_of_given()
    return [_class_row(index, counts, report.class_names, confusions.get(index)) for index in order]


def _class_row(
    index: int, counts: LabelCounts, names: tuple[str, ...], confusion: tuple[int, int] | None
) -> ClassRow:
    given = int(counts.given[index])
    return ClassRow(
        name=names[index],
        given=given,
        suggested=int(counts.suggested[index]),
        changed=int(counts.changed[index]),
        relabel=int(counts.verdicts[index, RELABEL]),
        review=int(counts.verdicts[index, REVIEW]),
        confidence=float(counts.confidence[index]) / given if given else None,
        confusion=None if confusion is None else (names[confusion[0]], confusion[1]),
    )


def confusions(report: Report, most: int = MOST_CONFUSIONS) -> list[Confusion]:
    """The most frequent changes."""
    names, given = report.class_names, report.counts.given
    return [
        Confusion(names[old], names[new], count, count / int(torch.clamp(given[old], min=1)))
        for old, new, count in report.counts.pairs.commonest(most)
    ]
