"""The estimated transition matrix, P(given | true), with the suggested classes taken for the true ones."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pencil.report.counts import LabelCounts

MOST_CLASSES = 20


@dataclass(frozen=True)
class Transition:
    """Some classes' part of the matrix.

    Attributes:
        classes: (M,) which classes: all, or those that most changes go from or to.
        counts: (M, M) rows by suggested class (down) and given class (across).
        shares: (M, M) the same, each row divided by all rows for which its class is suggested.
        is_whole: Whether these are all classes.
    """

    classes: list[int]
    counts: list[list[int]]
    shares: list[list[float]]
    is_whole: bool


def transition(counts: LabelCounts, most: int = MOST_CLASSES) -> Transition:
    """The estimate, cut to the ``most`` classes with most changes."""
    classes = most_changed(counts, most)
    matrix = counts.pairs.among(classes).T + torch.diag((counts.given - counts.changed)[classes])
    totals = counts.suggested[classes].clamp_min(1)
    shares = matrix.double() / totals[:, None]
    return Transition(
        classes.tolist(), matrix.tolist(), shares.tolist(), is_whole=len(classes) == len(counts.given)
    )


def most_changed(counts: LabelCounts, most: int) -> Tensor:
    """The classes, in their order, that most changes go from or to: at most so many."""
    staying = counts.given - counts.changed
    moves = counts.changed + (counts.suggested - staying)
    return moves.argsort(descending=True, stable=True)[:most].sort().values
