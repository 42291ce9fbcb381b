"""What is estimated about the noise of a data set: rates, the transition matrix, and reasons for doubt.

All estimates are sums of the posterior q over rows: the rate is the mean of 1 − q_given, and the transition matrix
P(given | true) has the counts J[c, j] = Σ q_c over the rows given j. Their 95 % intervals are value ± 1.96 standard
errors of three parts:

    which rows are wrong, given their probabilities      Σ p (1 − p) / n²
    the fitted rate (and with it all p)                  se(π)², from the likelihood
    the model itself                                     0.005 + 3 % of the value, from simulated noise

Legend: B rows, C classes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pencil.estimates.likelihood import Map
from pencil.estimates.structure import Anchors
from pencil.estimates.whitening import Total

WIDTH = 1.96
SURE = 0.85
MODEL_ERROR, MODEL_SHARE = 0.005, 0.03


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


class Tally:
    """Sums of the posterior of all rows of this rank."""

    def __init__(self, num_classes: int) -> None:
        self.joint = torch.zeros(num_classes, num_classes, dtype=torch.float64)  # true, given
        self.scatter = torch.zeros(num_classes, dtype=torch.float64)  # Σ p (1 − p) by given class
        self.unsure = torch.zeros(3, dtype=torch.float64)  # rows, Σ e and Σ e (1 − e) with e = 1 − max q

    def add(self, posterior: Tensor, given: Tensor, trusted: Tensor) -> None:
        """Count rows with posterior (B, C), given classes (B,) and whether they are trusted (B,)."""
        sure = torch.nn.functional.one_hot(given, len(self.joint)).to(posterior.dtype)
        q = torch.where(trusted[:, None], sure, posterior)
        self.joint.index_add_(1, given, q.T.double())
        wrong = 1 - q.gather(1, given[:, None])[:, 0].double()
        self.scatter.index_add_(0, given, wrong * (1 - wrong))
        error = 1 - q.max(1).values.double()
        self.unsure += torch.stack([torch.ones_like(error), error, error * (1 - error)], 1).sum(0)

    def noise(self, found: Map, test: Anchors, total: Total) -> NoiseEstimate:
        """The estimates over all ranks."""
        joint, scatter, unsure = total(self.joint), total(self.scatter), total(self.unsure)
        rows = unsure[0].clamp_min(1)
        given, right = joint.sum(0), joint.diagonal()
        rate = (given.sum() - right.sum()) / rows
        relative = found.error / max(found.rate, 1e-3)
        whole = _interval(rate, scatter.sum() / rows**2, relative)
        per_class = _interval(1 - right / given.clamp_min(1), scatter / given.clamp_min(1) ** 2, relative)
        error = _interval(unsure[1] / rows, unsure[2] / rows**2, relative)
        matrix = _matrix(joint)
        low, high = _bounds(matrix, joint.sum(1).clamp_min(1)[:, None])
        alarms = (_structure_alarm(test),) if test.structured else ()
        if alarms:
            whole, per_class, error = (_widened(each, test.disagreeing) for each in (whole, per_class, error))
        return NoiseEstimate(
            rate=_number(whole),
            per_class=per_class.float(),
            matrix=matrix.float(),
            matrix_low=low.float(),
            matrix_high=high.float(),
            suggested_error=_number(error),
            alarms=alarms,
        )


def less_sure(posterior: Tensor, given: Tensor) -> Tensor:
    """The posterior (B, C) with 15 % of what is not on the given class spread over all other classes.

    With noise between particular classes a suggestion is more often wrong than its probability says. The probability
    that the given label is wrong stays as it is, and so does the order of the other classes.
    """
    right = posterior.gather(1, given[:, None])
    other = SURE * posterior + (1 - SURE) * (1 - right) / max(posterior.shape[1] - 1, 1)
    return other.scatter(1, given[:, None], right)


def _structure_alarm(test: Anchors) -> Alarm:
    return Alarm(
        "structure",
        f"the labels of {100 * test.wrong:.0f} % of the most distinct rows disagree with their features, and noise "
        f"that falls on all classes alike explains {100 * test.uniform:.0f} %: errors run between particular "
        "classes, which features alone cannot separate from hard rows",
        "audit a hundred random rows (pencil audit)",
    )


def _widened(interval: Tensor, most: float) -> Tensor:
    """The interval (..., 3) from a fifth of its lower bound to at least ``most``."""
    low, high = interval[..., 1] / 5, interval[..., 2].clamp_min(most)
    return torch.stack([interval[..., 0], low, high], -1)


def _interval(value: Tensor, variance: Tensor, relative: float) -> Tensor:
    """Value, low and high (..., 3) from the variance over rows and the relative error of the rate."""
    value = value.clamp(0, 1)
    error = (variance + (relative * value) ** 2 + (MODEL_ERROR + MODEL_SHARE * value) ** 2).sqrt()
    return torch.stack(
        [value, (value - WIDTH * error).clamp_min(0), (value + WIDTH * error).clamp_max(1)], -1
    )


def _number(interval: Tensor) -> Interval:
    return Interval(*interval.tolist())


def _matrix(joint: Tensor) -> Tensor:
    """P(given | true) (C, C); a class that no row seems to have keeps its label."""
    rows = joint.sum(1, keepdim=True)
    identity = torch.eye(len(joint), dtype=joint.dtype)
    return torch.where(rows > 1e-6, joint / rows.clamp_min(1e-6), identity)


def _bounds(share: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Wilson's 95 % interval of shares (C, C) of about ``rows`` (C, 1) rows each."""
    square = WIDTH**2
    middle = (share + square / (2 * rows)) / (1 + square / rows)
    half = WIDTH / (1 + square / rows) * (share * (1 - share) / rows + square / (4 * rows**2)).sqrt()
    return (middle - half).clamp(0, 1), (middle + half).clamp(0, 1)
