"""The estimated transition matrix P(given | true) of the classes that a report shows, with bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from pencil.estimates import Interval
from pencil.report.findings import LabelCounts, TruthCounts, most_changed
from pencil.results import Estimates

MOST_CLASSES = 20
"""Number of classes shown."""


@dataclass(frozen=True)
class Transition:
    """The transition matrix of some classes.

    Attributes:
        classes: (M,) the classes: all, or those with the most changes.
        cells: (M, M) by true class (down) and given class (across); None for entries too small to be kept.
        truth: (M, M) the true shares; None if the true labels are unknown.
        is_whole: Whether these are all classes.
    """

    classes: list[int]
    cells: list[list[Interval | None]]
    truth: list[list[float]] | None
    is_whole: bool

    @property
    def shares(self) -> list[list[float]]:
        """(M, M) the estimates without their bounds."""
        return [[0.0 if cell is None else cell.value for cell in row] for row in self.cells]


def transition(estimates: Estimates, counts: LabelCounts, most: int = MOST_CLASSES) -> Transition:
    """Return the matrix of the ``most`` classes with the most changes."""
    classes: list[int] = most_changed(counts, most).tolist()
    known = {(true, given): Interval(*bounds) for true, given, *bounds in estimates.pairs}
    known |= {(index, index): Interval(*bounds) for index, bounds in enumerate(estimates.kept)}
    return Transition(
        classes,
        [[known.get((true, given)) for given in classes] for true in classes],
        true_shares(counts.truth, classes) if counts.truth.rows else None,
        is_whole=len(classes) == len(counts.given),
    )


def true_shares(truth: TruthCounts, classes: Sequence[int]) -> list[list[float]]:
    """P(given | true) (M, M) as counted."""
    places = torch.tensor(classes)
    counts = truth.pairs.among(places) + torch.diag(truth.right[places])
    shares: list[list[float]] = (counts.double() / truth.classes[places].clamp_min(1)[:, None]).tolist()
    return shares
