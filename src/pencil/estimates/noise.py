"""What is estimated about the noise of a data set: rates, the transition matrix, and reasons for doubt."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Interval:
    """An estimate with the bounds of its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Alarm:
    """A reason why an estimate cannot be trusted.

    Attributes:
        name: One word.
        words: What was found.
        remedy: What to do.
    """

    name: str
    words: str
    remedy: str


@dataclass(frozen=True)
class NoiseEstimate:
    """The noise of the given labels, equal on all ranks.

    Attributes:
        rate: The share of given labels that are wrong.
        per_class: (C, 3) the same for the rows given each class: value, low, high.
        matrix: (C, C) P(given | true).
        matrix_low: (C, C) lower bounds.
        matrix_high: (C, C) upper bounds.
        suggested_error: The share of rows whose most likely class is wrong.
        alarms: Reasons not to trust the estimate; empty if there are none.
    """

    rate: Interval
    per_class: Tensor
    matrix: Tensor
    matrix_low: Tensor
    matrix_high: Tensor
    suggested_error: Interval
    alarms: tuple[Alarm, ...] = ()
