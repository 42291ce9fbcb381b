"""Near-identical rows and outliers in the report: which rows to show, and the sentences about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from pencil.report.shortlist import Case
from pencil.report.source import Example
from pencil.report.text import count
from pencil.results import NearRows, NeighbourCounts
from pencil.results.neighbours import NO_GROUP, TRAIN

GROUPS, MEMBERS = 8, 6
"""Groups that are shown, and rows of each."""
CANDIDATES = 200
"""Groups among which the surest errors are chosen."""


@dataclass(frozen=True)
class Near:
    """Near-identical rows and outliers as the report shows them.

    Attributes:
        counts: How many there are.
        groups: Rows of some groups with different labels, the surest errors first.
        outliers: The farthest rows, with how many times farther from their neighbours they are than the median row.
    """

    counts: NeighbourCounts
    groups: list[list[Example]]
    outliers: list[tuple[Example, float]]


@dataclass(frozen=True)
class NearCases:
    """The rows to show, before they have thumbnails."""

    groups: list[list[Case]]
    outliers: list[Case]

    @property
    def lists(self) -> list[list[Case]]:
        """All lists of rows: the groups, then the outliers."""
        return [*self.groups, self.outliers]


def rows_to_show(near: NearRows | None, examples: int) -> dict[int, int]:
    """The rows that may be shown, each with the number of its group; ``NO_GROUP`` for outliers."""
    if near is None:
        return {}
    far = near.outlier.topk(min(examples, near.counts.outliers)).indices
    wanted = near.differing.nonzero()[:CANDIDATES, 0]
    inside = torch.isin(near.groups[TRAIN], wanted).nonzero()[:, 0]
    numbers: list[int] = near.groups[TRAIN][inside].tolist()
    return dict.fromkeys(far.tolist(), NO_GROUP) | dict(zip(inside.tolist(), numbers, strict=True))


def near_cases(near: NearRows | None, cases: Mapping[int, Case], examples: int) -> NearCases:
    """Arrange the rows of ``rows_to_show``: groups with the surest correction first, outliers by their distance."""
    if near is None:
        return NearCases([], [])
    groups: dict[int, list[Case]] = {}
    for row, number in rows_to_show(near, examples).items():
        if number != NO_GROUP:
            groups.setdefault(number, []).append(cases[row])
    ranked = sorted(groups.values(), key=_surest, reverse=True)[:GROUPS]
    far = near.outlier.topk(min(examples, near.counts.outliers)).indices.tolist()
    return NearCases([_with_both(group) for group in ranked], [cases[row] for row in far])


def _surest(group: list[Case]) -> float:
    return max((case.confidence for case in group if case.suggested != case.given), default=0.0)


def _with_both(group: list[Case]) -> list[Case]:
    """At most ``MEMBERS`` rows of a group, with as many different given classes as possible first."""
    first = {case.given: case for case in reversed(group)}
    return [*first.values(), *(case for case in group if case is not first[case.given])][:MEMBERS]


def near_words(counts: NeighbourCounts) -> list[str]:
    """What was found, as sentences; one sentence if nothing was found."""
    said = []
    if counts.differing_groups:
        said.append(
            f"{count(counts.differing_groups, 'group')} of near-identical rows "
            f"{'has' if counts.differing_groups == 1 else 'have'} different labels "
            f"({count(counts.differing_rows, 'row')}): at least one label of each group is wrong."
        )
    elif counts.duplicate_rows:
        said.append(
            f"{count(counts.duplicate_rows, 'row')} {_are(counts.duplicate_rows)} near-identical to others; their "
            "labels agree."
        )
    for split, number in (
        ("test", counts.test_rows_in_train),
        ("validation", counts.validation_rows_in_train),
    ):
        if number:
            said.append(f"{count(number, f'{split} row')} {_are(number)} also in the training data.")
    if counts.outliers:
        said.append(f"{count(counts.outliers, 'row')} {_are(counts.outliers)} far from all others.")
    return said or [
        "No rows are near-identical, and none is far from all others.",
    ]


def _are(number: int) -> str:
    return "is" if number == 1 else "are"
