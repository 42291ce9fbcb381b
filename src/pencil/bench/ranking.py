"""How well a score finds wrong labels, and how well a probability is calibrated.

``score`` (N,) ranks rows, highest first; ``wrong`` (N,) bool marks the rows whose given label is wrong. Rows with equal
scores form one group, so that no result depends on the order of the rows. Results are None where they are undefined.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Groups(NamedTuple):
    """Rows by distinct score, highest first: rows (G,) and wrong rows (G,) of each group, as float64."""

    rows: Tensor
    wrong: Tensor


def groups(score: Tensor, wrong: Tensor) -> Groups:
    """Group rows with equal scores; raises ``ValueError`` for a score that is not a number."""
    if score.shape != wrong.shape or score.dim() != 1:
        raise ValueError(f"score and wrong must both be (N,): {tuple(score.shape)}, {tuple(wrong.shape)}")
    if score.isnan().any():
        raise ValueError("a score is not a number")
    ordered, order = score.sort(descending=True)
    _, group, rows = ordered.unique_consecutive(return_inverse=True, return_counts=True)
    found = torch.zeros(len(rows), dtype=torch.float64)
    return Groups(rows.double(), found.index_add_(0, group, wrong[order].double()))


LOOKS = 100
MEASURES = ("auroc", "average_precision", "precision_at_100", "precision_at_1_percent")


def ranked(score: Tensor, wrong: Tensor) -> dict[str, float | None]:
    """The ``MEASURES`` of a score: in the whole ranking, in the first 100 looks, and in the first hundredth of rows."""
    hundredth = max(len(score) // 100, 1)
    values = (
        auroc(score, wrong),
        average_precision(score, wrong),
        precision_at(score, wrong, LOOKS),
        precision_at(score, wrong, hundredth),
    )
    return dict(zip(MEASURES, values, strict=True))


def auroc(score: Tensor, wrong: Tensor) -> float | None:
    """P(a wrong row scores above a right one), a tie counting one half; None unless there are rows of both kinds."""
    rows, found = groups(score, wrong)
    right = rows - found
    pairs = float(found.sum() * right.sum())
    if not pairs:
        return None
    below = right.sum() - right.cumsum(0)
    return float((found * (below + right / 2)).sum()) / pairs


def average_precision(score: Tensor, wrong: Tensor) -> float | None:
    """The sum of (R_g - R_(g-1)) P_g over groups g, with recall R_g and precision P_g of all rows down to group g.

    This is the step-wise sum without interpolation that scikit-learn computes. None if no row is wrong.
    """
    rows, found = groups(score, wrong)
    total = float(found.sum())
    if not total:
        return None
    return float((found * found.cumsum(0) / rows.cumsum(0)).sum()) / total


def precision_at(score: Tensor, wrong: Tensor, budget: int) -> float | None:
    """The expected share of wrong rows among the first ``budget`` (all, if there are fewer), ties in random order.

    None if there are no rows or the budget is 0.
    """
    rows, found = groups(score, wrong)
    looks = min(budget, len(score))
    if looks <= 0:
        return None
    before = rows.cumsum(0) - rows
    taken = (looks - before).clamp(min=0).minimum(rows)
    return float((found * taken / rows).sum()) / looks


def expected_calibration_error(p: Tensor, wrong: Tensor, bins: int = 15) -> float | None:
    """The sum over equal-width bins of [0, 1] of (share of rows) * |mean ``p`` - share of wrong rows|.

    A bin contains its lower bound; the last one also contains 1. None if there are no rows.
    """
    if not len(p):
        return None
    which = (p.double() * bins).long().clamp(0, bins - 1)
    gaps = torch.zeros(bins, dtype=torch.float64).index_add_(0, which, p.double() - wrong.double())
    return float(gaps.abs().sum()) / len(p)
