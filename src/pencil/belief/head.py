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
from pencil.belief.rows import BeliefRows

MIXED = 0.25
DECAY, TRUNCATED = 1e-4, 0.7
_LONGEST = 3.0
_STEPS = (40, 30)


def linear_read_outs(rows: BeliefRows, believed: list[Tensor]) -> list[Tensor]:
    """The weights (R + 1, C) of each fold, from beliefs (N, C) about the rows outside of it."""
    x, found = whitened(rows.directions, rows.lengths), []
    for fold in range(rows.folds):
        learned = rows.fold != fold
        target = believed[fold][learned]
        target = target / target.sum(1, keepdim=True).clamp_min(1e-9)
        weight = (rows.weight / rows.weight.sum())[learned, None]
        found.append(_fitted(x[learned], weight * target))
    return found


def read_linearly(axes: Tensor, lengths: Tensor, fold: Tensor, weights: list[Tensor]) -> Tensor:
    """F (B, C) of rows with directions (B, R) and relative lengths (B, 1), by the weights of their folds (B,)."""
    x, found = whitened(axes, lengths), torch.zeros(len(axes), weights[0].shape[1])
    for number, each in enumerate(weights):
        held = fold == number
        found[held] = (x[held] @ each).softmax(1)
    return found


def whitened(axes: Tensor, lengths: Tensor) -> Tensor:
    """(B, R + 1) white rows, none very long, and a 1."""
    return torch.cat([axes * lengths.clamp_max(_LONGEST), torch.ones(len(axes), 1)], 1)


def with_second(posterior: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """The posterior (B, C + 1) with a part of the second read-out (B, C), and the likeliest class (B,) by both."""
    none = posterior[:, -1:]
    second = torch.cat([second * (1 - none), none], 1)
    total = (1 - MIXED) * posterior + MIXED * second
    return total / total.sum(1, keepdim=True), (posterior + second)[:, :-1].argmax(1)


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
