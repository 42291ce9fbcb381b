"""A second read-out: a linear softmax on the whitened rows, fitted to what the first one believes of the other folds.

Cross entropy finds the directions, and generalized cross entropy (Zhang & Sabuncu 2018) then lets rows that remain far
from their class go. A quarter of it is mixed into the belief, as the trained network's part is in PENCIL's y^d at its
fixed point (f + κ y) / (1 + κ), κ = 3, unless left-out labels reject the mixture.

Legend: N rows, R directions, C classes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from pencil.belief.descent import minimise
from pencil.belief.rows import FOLDS, BeliefRows

MIXED = 0.25
DECAY, TRUNCATED = 1e-4, 0.7
_LONGEST = 3.0
_STEPS = (40, 30)


def linear_read_out(rows: BeliefRows, believed: list[Tensor]) -> Tensor:
    """F (N, C) from beliefs (N, C) of each fold, each row from a fit without its fold."""
    x = torch.cat([rows.directions * rows.lengths.clamp_max(_LONGEST), torch.ones(len(rows.given), 1)], 1)
    found = torch.zeros(len(x), rows.classes)
    for fold in range(FOLDS):
        held = rows.fold == fold
        target = believed[fold][~held]
        target = target / target.sum(1, keepdim=True).clamp_min(1e-9)
        weight = (rows.weight / rows.weight.sum())[~held, None]
        found[held] = (x[held] @ _fitted(x[~held], weight * target)).softmax(1)
    return found


def _fitted(x: Tensor, target: Tensor) -> Tensor:
    """The weights (R + 1, C) for weighted targets (N, C)."""
    weights = torch.zeros(x.shape[1], target.shape[1])

    def entropy() -> Tensor:
        return -(target * (x @ weights).log_softmax(1)).sum()

    def bounded() -> Tensor:
        return (target * (1 - (x @ weights).softmax(1).clamp_min(1e-9) ** TRUNCATED)).sum() / TRUNCATED

    def decayed(loss: Callable[[], Tensor]) -> Tensor:
        return loss() + DECAY / 2 * weights[:-1].square().sum()

    for loss, steps in zip((entropy, bounded), _STEPS, strict=True):
        minimise(partial(decayed, loss), [weights], steps)
    return weights.detach()
