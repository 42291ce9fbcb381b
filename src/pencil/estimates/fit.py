"""Fit the posterior of true classes: leave-one-out ridge read-out, power map, symmetric noise, Bayes' rule.

Legend: N rows of all ranks, D features, C classes. With centred features h, Y the given labels one-hot and
G = Σ h hᵀ, the read-out and its leave-one-out form are

    W = (G + λI)⁻¹ Σ h (y − ȳ)ᵀ,    l_n = h_nᵀ (G + λI)⁻¹ h_n + 1/N,    z_n = ȳ + (Wᵀh_n − l_n (y_n − ȳ)) / (1 − l_n).

f_c ∝ (max(z_c, 0) + 0.02)^γ, and with T = 1 − π on the diagonal and π/(C − 1) elsewhere, q_c ∝ f_c T[c, given].
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from pencil.estimates.noise import Interval, NoiseEstimate

Passes = Callable[[], Iterator[tuple[Tensor, Tensor]]]
"""One pass over the rows of this rank: batches of places (B,) and features (B, D)."""

RIDGES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
POWERS = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
FLOOR = 0.02
SAMPLED = 20_000  # rows of a rank that the likelihood is fitted on
ROUNDS = 8


@dataclass(frozen=True)
class Fitted:
    """The fitted read-out and noise.

    Attributes:
        mean: (D,) of the features.
        shares: (C,) ȳ, the shares of the given classes.
        inverse: (D, D) (G + λI)⁻¹.
        weights: (D, C) W.
        num_rows: N.
        power: γ.
        noise: The estimated noise.
    """

    mean: Tensor
    shares: Tensor
    inverse: Tensor
    weights: Tensor
    num_rows: int
    power: float
    noise: NoiseEstimate

    def posterior(self, features: Tensor, given: Tensor) -> Tensor:
        """The probability (B, C) that each class is the true one, float32."""
        z = _left_out(features, given, self.mean, self.shares, self.inverse, self.weights, self.num_rows)
        return _bayes(_map(z, self.power), given, self.noise.rate.value).float()


def fit(
    passes: Passes,
    given: Tensor,
    num_classes: int,
    *,
    trusted: Tensor | None = None,
    total: Callable[[Tensor], Tensor] = lambda values: values,
) -> Fitted:
    """Fit on all rows.

    Args:
        passes: Makes one pass over this rank's rows.
        given: (N,) their given classes.
        num_classes: C.
        trusted: (N,) bool, rows whose given label was verified.
        total: The sum of a tensor over all ranks.
    """
    mean, count = _mean(passes, total)
    shares = total(given.bincount(minlength=num_classes).double()) / count
    gram, cross, sample = _sums(passes, given, mean, shares, total)
    values, vectors = torch.linalg.eigh(gram)
    best: tuple[float, float] | None = None
    for ridge in RIDGES:
        scale = ridge * float(values.clamp_min(0).mean()) + 1e-12
        inverse = vectors @ torch.diag(1 / (values.clamp_min(0) + scale)) @ vectors.T
        error = 0.0
        for places, features in sample:
            z = _left_out(features, given[places], mean, shares, inverse, inverse @ cross, count)
            error += float((z - _onehot(given[places], num_classes)).square().sum())
        error = float(total(torch.tensor(error, dtype=torch.float64)))
        if best is None or error < best[0]:
            best = (error, scale)
    assert best is not None
    inverse = vectors @ torch.diag(1 / (values.clamp_min(0) + best[1])) @ vectors.T
    weights = inverse @ cross
    power, rate = _likeliest(sample, given, mean, shares, inverse, weights, count, total)
    flat = torch.full((num_classes, num_classes), rate / max(num_classes - 1, 1)).fill_diagonal_(1 - rate)
    known = Interval(rate, max(0.0, rate - 0.02), min(1.0, rate + 0.02))
    per_class = torch.tensor([known.value, known.low, known.high]).repeat(num_classes, 1)
    noise = NoiseEstimate(known, per_class, flat, flat, flat, known)
    return Fitted(mean, shares, inverse, weights, count, power, noise)


def _mean(passes: Passes, total: Callable[[Tensor], Tensor]) -> tuple[Tensor, int]:
    sums, count = None, 0
    for _, features in passes():
        own = features.double().sum(0)
        sums, count = own if sums is None else sums + own, count + len(features)
    assert sums is not None
    rows = int(total(torch.tensor(float(count), dtype=torch.float64)))
    return total(sums) / rows, rows


def _sums(
    passes: Passes, given: Tensor, mean: Tensor, shares: Tensor, total: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor, list[tuple[Tensor, Tensor]]]:
    gram = torch.zeros(len(mean), len(mean), dtype=torch.float64)
    cross = torch.zeros(len(mean), len(shares), dtype=torch.float64)
    sample: list[tuple[Tensor, Tensor]] = []
    held = 0
    for places, features in passes():
        centred = features.double() - mean
        gram += centred.T @ centred
        cross += centred.T @ (_onehot(given[places], len(shares)) - shares)
        if held < SAMPLED:
            sample.append((places, features))
            held += len(places)
    return total(gram), total(cross), sample


def _onehot(given: Tensor, num_classes: int) -> Tensor:
    return torch.nn.functional.one_hot(given, num_classes).double()


def _left_out(
    features: Tensor,
    given: Tensor,
    mean: Tensor,
    shares: Tensor,
    inverse: Tensor,
    weights: Tensor,
    num_rows: int,
) -> Tensor:
    h = features.double() - mean
    lever = ((h @ inverse) * h).sum(1, keepdim=True) + 1 / num_rows
    y = _onehot(given, len(shares)) - shares
    return shares + (h @ weights - lever * y) / (1 - lever).clamp_min(1e-6)


def _map(z: Tensor, power: float) -> Tensor:
    return ((z.clamp_min(0) + FLOOR).log() * power).softmax(1)


def _bayes(f: Tensor, given: Tensor, rate: float) -> Tensor:
    seen = torch.full_like(f, rate / max(f.shape[1] - 1, 1)).scatter_(1, given[:, None], 1 - rate)
    q = f * seen
    return q / q.sum(1, keepdim=True)


def _likeliest(
    sample: list[tuple[Tensor, Tensor]],
    given: Tensor,
    mean: Tensor,
    shares: Tensor,
    inverse: Tensor,
    weights: Tensor,
    count: int,
    total: Callable[[Tensor], Tensor],
) -> tuple[float, float]:
    scores = [_left_out(x, given[at], mean, shares, inverse, weights, count) for at, x in sample]
    z = torch.cat(scores)
    labels = torch.cat([given[at] for at, _ in sample])
    best = (-float("inf"), 1.0, 0.1)
    for power in POWERS:
        f, rate = _map(z, power).gather(1, labels[:, None])[:, 0], 0.2
        for _ in range(ROUNDS):
            other = rate / max(len(shares) - 1, 1)
            likelihood = f * (1 - rate) + (1 - f) * other
            sums = torch.stack(
                [(1 - f * (1 - rate) / likelihood).sum(), torch.tensor(float(len(f))), likelihood.log().sum()]
            )
            wrong, rows, value = total(sums.double()).tolist()
            rate = min(max(wrong / rows, 0.001), 0.95)
        best = max(best, (value, power, rate))
    return best[1], best[2]
