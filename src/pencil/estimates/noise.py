"""What is estimated about the noise of a data set: rates, the transition matrix, and reasons for doubt.

All estimates are sums of the posterior q over rows: the rate is the mean of 1 − q_given, and the transition matrix
P(given | true) has the counts J[c, j] = Σ q_c over the rows given j. Their 95 % intervals are value ± 1.96 standard
errors of three parts:

    which rows are wrong, given their probabilities      Σ p (1 − p) / n²
    the fitted rate (and with it all p)                  se(π)², from the likelihood
    the model itself                                     0.005 + 3 % of the value, from tuning problems

and the rate's interval reaches to all rates that the likelihood does not exclude, which matters for few rows. After an
alarm intervals reach from a fifth of their lower bound to the share of rows whose most similar class is another one.

Legend: B rows, C classes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pencil.estimates.likelihood import Map
from pencil.estimates.structure import MOST_CLASSES, Anchors
from pencil.estimates.whitening import Total

WIDTH = 1.96
SURE = 0.85
MODEL_ERROR, MODEL_SHARE = 0.005, 0.03
AUDIT = "answer a hundred rows: pencil review RUN --ask 100"


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
        matrix: (C, C) P(given | true); (0, 0) with more than 2,000 classes, and so are its bounds.
        matrix_low: (C, C) lower bounds.
        matrix_high: (C, C) upper bounds.
        suggested_error: The share of rows whose most likely class is wrong.
        alarms: Reasons not to trust the estimate; empty if there are none.
        surest: The largest confidence that a suggestion counts with when labels are replaced.
    """

    rate: Interval
    per_class: Tensor
    matrix: Tensor
    matrix_low: Tensor
    matrix_high: Tensor
    suggested_error: Interval
    alarms: tuple[Alarm, ...] = ()
    surest: float = 1.0


class Tally:
    """Sums of the posterior of all rows of this rank; without a transition matrix if there are very many classes."""

    def __init__(self, num_classes: int) -> None:
        kept = num_classes if num_classes <= MOST_CLASSES else 0
        self.joint = torch.zeros(kept, kept, dtype=torch.float64)  # true, given
        # by given class: rows, Σ p and Σ p (1 − p) with p = 1 − q_given
        self.wrong = torch.zeros(num_classes, 3, dtype=torch.float64)
        # Σ e and Σ e (1 − e) with e = 1 − max q, and rows that are not trusted
        self.unsure = torch.zeros(3, dtype=torch.float64)

    def add(self, posterior: Tensor, given: Tensor, trusted: Tensor) -> None:
        """Count rows with posterior (B, C), given classes (B,) and whether they are trusted (B,)."""
        sure = torch.zeros_like(posterior).scatter_(1, given[:, None], 1.0)
        q = torch.where(trusted[:, None], sure, posterior)
        if len(self.joint):
            self.joint.index_add_(1, given, q.T.double())
        wrong = 1 - q.gather(1, given[:, None])[:, 0].double()
        self.wrong.index_add_(0, given, torch.stack([torch.ones_like(wrong), wrong, wrong * (1 - wrong)], 1))
        error = 1 - q.max(1).values.double()
        self.unsure += torch.stack([error, error * (1 - error), (~trusted).double()], 1).sum(0)

    def noise(self, found: Map, test: Anchors, total: Total, *, alarm: bool) -> NoiseEstimate:
        """The estimates over all ranks; with an alarm the intervals are wide."""
        joint, classes, unsure = total(self.joint), total(self.wrong), total(self.unsure)
        count = classes.sum(0)[0].clamp_min(1)
        relative = found.error / max(found.rate, 1e-3)
        rows, wrong, scatter = classes.unbind(1)
        rate = _interval(wrong.sum() / count, scatter.sum() / count**2, relative)
        rate = _reaching(rate, *(end * float(unsure[2] / count) for end in (found.low, found.high)))
        per_class = _interval(wrong / rows.clamp_min(1), scatter / rows.clamp_min(1) ** 2, relative)
        error = _interval(unsure[0] / count, unsure[1] / count**2, relative)
        if alarm:
            rate, per_class, error = (_widened(each, test.disagreeing) for each in (rate, per_class, error))
        matrix = _matrix(joint)
        low, high = bounds(matrix, joint.sum(1, keepdim=True).clamp_min(1))
        return NoiseEstimate(
            rate=_number(rate),
            per_class=per_class.float(),
            matrix=matrix.float(),
            matrix_low=low.float(),
            matrix_high=high.float(),
            suggested_error=_number(error),
            alarms=(_alarm(test),) if alarm else (),
            surest=SURE if alarm else 1.0,
        )


def less_sure(posterior: Tensor, given: Tensor, sure: float = SURE) -> Tensor:
    """The posterior (B, C) with 15 %, or 1 − ``sure``, of what is not on the given class spread over all other classes.

    With noise between particular classes a suggestion is more often wrong than its probability says. The probability
    that the given label is wrong stays as it is, and so does the order of the other classes.
    """
    right = posterior.gather(1, given[:, None])
    other = sure * posterior + (1 - sure) * (1 - right) / max(posterior.shape[1] - 1, 1)
    return other.scatter(1, given[:, None], right)


def bounds(share: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Wilson's 95 % interval of shares (C, C) of about ``rows`` (C, 1) rows each."""
    square = WIDTH**2
    middle = (share + square / (2 * rows)) / (1 + square / rows)
    half = WIDTH / (1 + square / rows) * (share * (1 - share) / rows + square / (4 * rows**2)).sqrt()
    return (middle - half).clamp(0, 1), (middle + half).clamp(0, 1)


def _alarm(test: Anchors) -> Alarm:
    if not test.structured:
        return Alarm(
            "hard rows",
            f"at least {100 * test.floor:.1f} % of the labels are far from their features, more than the labels as a "
            "whole suggest: errors are concentrated on hard rows, as with labels by people, and the noise rate is "
            "probably higher than estimated",
            AUDIT,
        )
    return Alarm(
        "structure",
        f"the labels of {100 * test.wrong:.0f} % of the most distinct rows disagree with their features, and noise "
        f"that falls on all classes alike explains {100 * test.uniform:.0f} %: errors run between particular "
        "classes, which features alone cannot separate from hard rows",
        AUDIT,
    )


def _reaching(interval: Tensor, low: float, high: float) -> Tensor:
    """The interval (3,), made to reach these bounds."""
    ends = [interval[1].clamp_max(low), interval[2].clamp_min(high)]
    return torch.stack([interval[0], *ends])


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
