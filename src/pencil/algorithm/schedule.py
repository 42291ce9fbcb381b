"""Values that change over a phase: constant, linear, piecewise, cosine.

A schedule is a pure function of the epochs elapsed in its phase and the phase's length, so a resumed run and
a run on another number of ranks read the same value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from pencil.algorithm.checks import require, require_amount


@dataclass(frozen=True)
class LinearSchedule:
    """From ``start`` to ``end`` in a straight line over the phase (Table 1: λ 3000 → 0)."""

    start: float
    end: float = 0.0
    kind: Literal["linear"] = "linear"

    def at(self, elapsed: float, epochs: float) -> float:
        """The value after ``elapsed`` of ``epochs`` epochs."""
        return self.start + (self.end - self.start) * _fraction(elapsed, epochs)

    def scaled(self, factor: float) -> LinearSchedule:
        """The same course in other units."""
        return replace(self, start=self.start * factor, end=self.end * factor)


@dataclass(frozen=True)
class CosineSchedule:
    """From ``start`` to ``end`` along half a cosine."""

    start: float
    end: float = 0.0
    kind: Literal["cosine"] = "cosine"

    def at(self, elapsed: float, epochs: float) -> float:
        """The value after ``elapsed`` of ``epochs`` epochs."""
        remaining = (1 + math.cos(math.pi * _fraction(elapsed, epochs))) / 2
        return self.end + (self.start - self.end) * remaining

    def scaled(self, factor: float) -> CosineSchedule:
        """The same course in other units."""
        return replace(self, start=self.start * factor, end=self.end * factor)


@dataclass(frozen=True)
class PiecewiseSchedule:
    """``values[i]`` until ``boundaries[i]`` epochs of the phase have passed (Sec. 4.2: 0.2, /10 at 40 and 80)."""

    values: tuple[float, ...]
    boundaries: tuple[float, ...]
    kind: Literal["piecewise"] = "piecewise"

    def __post_init__(self) -> None:
        if len(self.values) != len(self.boundaries) + 1:
            raise ValueError(
                f"piecewise schedule: {len(self.values)} values need {len(self.values) - 1} boundaries, "
                f"got {len(self.boundaries)}"
            )
        require(all(map(math.isfinite, self.boundaries)), "boundaries", self.boundaries, "must be finite")
        if list(self.boundaries) != sorted(set(self.boundaries)):
            raise ValueError(f"piecewise schedule: boundaries must increase, got {list(self.boundaries)}")

    def at(self, elapsed: float, epochs: float) -> float:
        """The value after ``elapsed`` epochs."""
        return self.values[sum(elapsed >= boundary for boundary in self.boundaries)]

    def scaled(self, factor: float) -> PiecewiseSchedule:
        """The same course in other units."""
        return replace(self, values=tuple(value * factor for value in self.values))


Schedule = float | LinearSchedule | PiecewiseSchedule | CosineSchedule


def value_at(schedule: Schedule, elapsed: float, epochs: float) -> float:
    """The schedule's value after ``elapsed`` of ``epochs`` epochs; a plain number is constant."""
    if isinstance(schedule, int | float):
        return float(schedule)
    return schedule.at(elapsed, epochs)


def scaled(schedule: Schedule, factor: float) -> Schedule:
    """The schedule with every value multiplied by ``factor``."""
    if isinstance(schedule, int | float):
        return schedule * factor
    return schedule.scaled(factor)


def extremes(schedule: Schedule) -> tuple[float, ...]:
    """Values that the schedule takes or nears, the least and the greatest among them."""
    if isinstance(schedule, int | float):
        return (schedule,)
    return schedule.values if isinstance(schedule, PiecewiseSchedule) else (schedule.start, schedule.end)


def require_rate(field: str, schedule: Schedule) -> None:
    """Refuse a rate that at any time is negative, not finite or larger than ``checks.LARGEST``."""
    for value in extremes(schedule):
        require_amount(field, value, schedule)


def _fraction(elapsed: float, epochs: float) -> float:
    return min(max(elapsed / epochs, 0.0), 1.0) if epochs > 0 else 1.0
