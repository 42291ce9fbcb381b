"""Minimise a smooth function: L-BFGS with a line search.

Not ``torch.optim.LBFGS``, whose first use imports torch's compiler, which takes longer than most fits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

MEMORY = 10
ENOUGH = 1e-4
"""The share of the decrease that the slope promises, which a step must reach."""
FLATTER = 0.9
"""The share of the slope that may be left after a step."""
CLOSE, FLAT = 1e-6, 1e-6
"""Where to stop: the decrease of a step, and the largest entry of the gradient."""
_TRIALS = 20


def minimise(cost: Callable[[], Tensor], parameters: Sequence[Tensor], steps: int) -> float:
    """Change the parameters in place to make the cost least; returns the least cost."""
    point = _Point(cost, parameters)
    value, slope = point.evaluated()
    known: list[tuple[Tensor, Tensor]] = []
    for _ in range(steps):
        if float(slope.abs().max()) < FLAT:
            break
        found = _searched(point, value, slope, _direction(slope, known))
        if found is None:
            break
        step, new, next_slope = found
        change = next_slope - slope
        if float(step @ change) > 1e-12 * float(change @ change):
            known = [*known[1 - MEMORY :], (step, change)]
        decrease, value, slope = value - new, new, next_slope
        if decrease < CLOSE:
            break
    return value


class _Point:
    """The parameters as one vector, and the cost there."""

    def __init__(self, cost: Callable[[], Tensor], parameters: Sequence[Tensor]) -> None:
        self._cost, self._parameters = cost, [each.requires_grad_() for each in parameters]

    def evaluated(self) -> tuple[float, Tensor]:
        """The cost and its gradient."""
        with torch.enable_grad():
            value = self._cost()
        parts = torch.autograd.grad(value, self._parameters)
        return float(value.detach()), torch.cat([part.flatten() for part in parts]).double()

    def move(self, step: Tensor) -> None:
        """Add a step to the parameters."""
        with torch.no_grad():
            sizes = [each.numel() for each in self._parameters]
            for each, part in zip(self._parameters, step.split(sizes), strict=True):
                each += part.view_as(each).to(each.dtype)


def _searched(
    point: _Point, value: float, slope: Tensor, direction: Tensor
) -> tuple[Tensor, float, Tensor] | None:
    """A step that decreases the cost enough, and that is long enough for the slope to flatten; its cost and slope.

    Halving and doubling by turns (Lewis & Overton 2013) end at such a step, where the curvature is positive.
    """
    promised = float(slope @ direction)
    low, high, length, at, found = 0.0, math.inf, 1.0, 0.0, None
    for _ in range(_TRIALS):
        point.move(direction * (length - at))
        at, (new, next_slope) = length, point.evaluated()
        if not new <= value + ENOUGH * promised * length:
            high = length
        else:
            low, found = length, (direction * length, new, next_slope)
            if float(next_slope @ direction) >= FLATTER * promised:
                return found
        length = 2 * low if high == math.inf else (low + high) / 2
    point.move(direction * (low - at))
    return found


def _direction(slope: Tensor, known: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """Minus the gradient times the inverse of the curvature that the last steps met."""
    direction, scales = -slope, []
    for step, change in reversed(known):
        scale = (step @ direction) / (step @ change)
        scales.append(scale)
        direction = direction - scale * change
    if known:
        step, change = known[-1]
        direction = direction * ((step @ change) / (change @ change))
    else:
        direction = direction / slope.norm().clamp_min(1.0)
    for (step, change), scale in zip(known, reversed(scales), strict=True):
        direction = direction + step * (scale - (change @ direction) / (step @ change))
    return direction
