"""How much similarities say: the sharpness b of f ∝ e^(b z), the noise rate with it, and factors of the classes.

All are fitted to the given labels of a sample, as sums over the rows of all ranks. Rows are taken in parts that stay in
the processor's cache: with many classes, whole temporary matrices would take more time than the arithmetic.

Legend: M rows of the sample, C classes.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from pencil.estimates.likelihood import CELLS, log_noise
from pencil.estimates.whitening import Total

TURNS, STEPS, CLOSE = 12, 8, 1e-3


def likeliest(
    similarities: Tensor, given: Tensor, spread: Tensor | None, sharp: float, rate: float, total: Total
) -> tuple[float, float]:
    """Return b and the rate that together make the given labels most likely: Newton and EM steps by turns."""
    for _ in range(TURNS):
        before = rate
        noise = log_noise(given, similarities.shape[1], torch.tensor(rate), spread)
        sharp = sharpness_of(similarities, noise, sharp, total, steps=2)
        sums = torch.tensor([0.0, len(given)], dtype=torch.float64)
        for some, likely, labels in _parts(similarities, noise, given):
            right = ((sharp * some).log_softmax(1) + likely).softmax(1).gather(1, labels[:, None])
            sums[0] += right.double().sum()
        sums = total(sums)
        rate = float((1 - sums[0] / sums[1].clamp_min(1)).clamp(0.02, 0.98))
        if abs(rate - before) < CLOSE:
            break
    return sharp, rate


def sharpness_of(
    similarities: Tensor, noise: Tensor, start: float, total: Total, steps: int = STEPS
) -> float:
    """Return b by Newton's method on Σ log Σ_c softmax(b z)_c P(given | c), from z and log P (M, C)."""
    sharp: float = start
    for _ in range(steps):
        sums = torch.zeros(2, dtype=torch.float64)
        for some, likely in _parts(similarities, noise):
            sums += _slope(some, likely, sharp)
        gradient, curvature = total(sums).tolist()
        step = gradient / max(abs(curvature), 1e-9)
        sharp = float(min(max(sharp + min(max(step, -sharp / 2), sharp), 0.5), 200.0))
        if abs(step) < CLOSE * sharp:
            break
    return sharp


def _slope(similarities: Tensor, noise: Tensor, sharp: float) -> Tensor:
    """The first and second derivative (2,) of some rows' log-likelihood by b: E_q z − E_f z, Var_q z − Var_f z."""
    read = (sharp * similarities).log_softmax(1)
    sums = torch.zeros(2, dtype=torch.float64)
    for sign, chances in ((1, (read + noise).softmax(1)), (-1, read.exp())):
        weighted = chances * similarities
        mean, square = weighted.sum(1).double(), (weighted * similarities).sum(1).double()
        sums += sign * torch.stack([mean.sum(), (square - mean.square()).sum()])
    return sums


def tilt_to(scores: Tensor, prior: Tensor, total: Total) -> Tensor:
    """Return the logarithm of factors (C,) after which the classes have about their given shares."""
    tilt = torch.zeros_like(prior)
    for _ in range(5):
        sums = torch.zeros(len(prior) + 1, dtype=torch.float64)
        sums[-1] = len(scores)
        for (some,) in _parts(scores):
            sums[:-1] += (some + tilt).softmax(1).sum(0).double()
        sums = total(sums)
        shares = (sums[:-1] / sums[-1].clamp_min(1)).clamp_min(1e-9)
        tilt = (tilt + prior - shares.log().float()).clamp(-30, 30)
    return tilt


def _parts(first: Tensor, *others: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """The rows of these tensors in parts of limited size."""
    size = max(1, CELLS // first.shape[1])
    return zip(first.split(size), *(other.split(size) for other in others), strict=True)
