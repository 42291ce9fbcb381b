"""Correct probabilities with a few audited rows, where the audit contradicts them.

The correction is a logistic curve on the logit of a probability, p ↦ σ(shift + slope · logit p), with two parameters
that a hundred random rows determine well enough. It is fitted by maximum likelihood with a weak prior around no
correction, and used only if a likelihood-ratio test rejects the uncorrected probabilities. A correction that is not
needed would add the noise of a small sample.

Legend: A audited rows, B rows, C classes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

EDGE = 1e-4  # probabilities are at least this far from 0 and 1, so that no row outweighs all others
PRIOR = (0.1, 1.0)  # precision of shift and slope around 0 and 1
CRITICAL = 9.21  # 99 % point of chi-squared with two degrees of freedom
STEPS = 50
LEAST_SLOPE = 0.05  # a correction keeps the order of the rows


@dataclass(frozen=True)
class Curve:
    """The correction p ↦ σ(shift + slope · logit p) of a probability."""

    shift: float
    slope: float

    def __call__(self, p: Tensor) -> Tensor:
        """The corrected probabilities, same shape and type."""
        return (self.shift + self.slope * _logit(p)).sigmoid().to(p.dtype)


@dataclass(frozen=True)
class Recalibration:
    """The corrections of a posterior; None leaves a part as it is.

    Attributes:
        wrong: For P(given label wrong).
        other: For P(the most likely other class is right | given label wrong).
    """

    wrong: Curve | None
    other: Curve | None

    def __call__(self, posterior: Tensor, given: Tensor) -> Tensor:
        """The corrected posterior (B, C) of rows with these given classes (B,)."""
        wrong, other, best = _factors(posterior, given)
        new_wrong = wrong if self.wrong is None else self.wrong(wrong)
        num_classes = posterior.shape[1]
        new_other = other if self.other is None or num_classes < 3 else self.other(other)
        rest = posterior.double().scatter(1, torch.stack([given, best], 1), 0.0)
        left = rest.sum(dim=1, keepdim=True)  # probability of the remaining classes
        even = 1 / max(num_classes - 2, 1)  # where it is 0
        new = torch.where(left > 0, rest / left, even) * (new_wrong * (1 - new_other))[:, None]
        new = new.scatter(1, best[:, None], (new_wrong * new_other)[:, None])
        return new.scatter(1, given[:, None], (1 - new_wrong)[:, None]).to(posterior.dtype)


def recalibrate(
    posterior: Tensor, given: Tensor, true: Tensor, weights: Tensor | None = None
) -> Recalibration | None:
    """Compare the posterior of audited random rows with the auditor's classes.

    Args:
        posterior: (A, C) the probability of each class.
        given: (A,) the given classes.
        true: (A,) the auditor's classes.
        weights: (A,) how many rows of the data set each audited row stands for; None if all stand for equally many.

    Returns:
        The correction; None if the audit does not contradict the posterior.
    """
    wrong, other, best = _factors(posterior, given)
    is_wrong = true != given
    curve = fit_curve(wrong, is_wrong, weights)
    share = fit_curve(
        other[is_wrong], (best == true)[is_wrong], None if weights is None else weights[is_wrong]
    )
    return None if curve is None and share is None else Recalibration(curve, share)


def fit_curve(p: Tensor, happened: Tensor, weights: Tensor | None = None) -> Curve | None:
    """Fit the correction of a probability to outcomes.

    Args:
        p: (A,) the probability of an event.
        happened: (A,) bool, whether the event happened.
        weights: (A,) the weight of each row; None for equal weights.

    Returns:
        The correction; None if the outcomes do not contradict the probabilities.
    """
    if not len(p):
        return None
    share = torch.ones(len(p), dtype=torch.float64) if weights is None else weights.double()
    share = share * len(p) / share.sum()
    inputs = torch.stack([torch.ones(len(p), dtype=torch.float64), _logit(p)], dim=1)
    found = _newton(inputs, happened.double(), share)
    none = torch.tensor([0.0, 1.0], dtype=torch.float64)
    gain = _log_likelihood(inputs, happened, share, found) - _log_likelihood(inputs, happened, share, none)
    if 2 * gain <= CRITICAL:
        return None
    return Curve(float(found[0]), float(found[1]))


def _newton(inputs: Tensor, happened: Tensor, share: Tensor) -> Tensor:
    """Maximise the likelihood with the prior. It is concave, and the prior keeps every step finite."""
    start, precision = torch.tensor([0.0, 1.0], dtype=torch.float64), torch.tensor(PRIOR, dtype=torch.float64)
    found = start.clone()
    for _ in range(STEPS):
        p = (inputs @ found).sigmoid()
        slope = inputs.T @ (share * (p - happened)) + precision * (found - start)
        curvature = inputs.T @ (inputs * (share * p * (1 - p))[:, None]) + precision.diag()
        step = torch.linalg.solve(curvature, slope)
        found = found - step * min(1.0, 2.0 / float(step.abs().max().clamp_min(1e-12)))
        found[1].clamp_(min=LEAST_SLOPE)
    return found


def _log_likelihood(inputs: Tensor, happened: Tensor, share: Tensor, found: Tensor) -> float:
    signs = torch.where(happened.bool(), 1.0, -1.0)
    return float((share * torch.nn.functional.logsigmoid(signs * (inputs @ found))).sum())


def _logit(p: Tensor) -> Tensor:
    return p.double().clamp(EDGE, 1 - EDGE).logit()


def _factors(posterior: Tensor, given: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """P(given wrong) (B,), P(best other class right | given wrong) (B,), and the best other class (B,)."""
    exact = posterior.double()
    wrong = exact.scatter(1, given[:, None], 0.0).sum(dim=1)  # more exact than 1 − q where q is close to 1
    others = exact.scatter(1, given[:, None], -1.0).max(dim=1)
    even = 1 / max(posterior.shape[1] - 1, 1)  # where no other class has any probability
    return wrong, torch.where(wrong > 0, others.values / wrong, even), others.indices
