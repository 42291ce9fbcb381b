"""Fit the map from similarities to probabilities, and the noise rate, to the given labels.

With f_c ∝ share_c e^(w · φ_c) the probability of class c from the features and I = 1 where c is not the given class g,
the joint probability of the true class c and the given one is

    p(c, g) = f_c · (1 − π) if c = g,    f_c · π r otherwise,

where r = 1/(C − 1). This is an exponential family in θ = (w, η), η = logit π, with c hidden, so the log-likelihood
Σ log Σ_c p(c, g) has

    gradient  E_q[φ, I] − E_f[φ], π        Hessian  Cov_q(φ, I) − Cov_f(φ), π (1 − π)

with q_c ∝ p(c, g) the posterior. Newton steps with backtracking; the negative Hessian gives the standard error of π.

Legend: M rows of the sample, K = 2 features of the map, C classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from pencil.estimates.prototypes import mapped
from pencil.estimates.whitening import Total

STEPS = 20
CELLS = 2**18  # entries of (rows, classes) at a time: more of them would not stay in the processor's cache
START = (8.0, 2.0, -2.0)
_BOUNDS = (-9.0, 4.0)  # of η: a rate from 0.0001 to 0.98
_GRID = 200


@dataclass(frozen=True)
class Evidence:
    """Rows of this rank that the likelihood is computed on.

    Attributes:
        similarities: (M, C) z.
        given: (M,) the given classes.
        prior: (C,) logarithm of the shares of the classes.
    """

    similarities: Tensor
    given: Tensor
    prior: Tensor

    def parts(self) -> Iterator[Evidence]:
        """The rows in parts of limited size."""
        size = max(1, CELLS // max(1, len(self.prior)))
        for at in torch.arange(len(self.given)).split(size):
            yield Evidence(self.similarities[at], self.given[at], self.prior)


@dataclass(frozen=True)
class Map:
    """The fitted parameters.

    Attributes:
        weights: w (K,).
        rate: π.
        error: The standard error of π by the likelihood alone.
        low, high: The rates whose log-likelihood, with the weights as they are, is within 1.92 of the largest.
        likelihood: The mean log-likelihood of a row.
    """

    weights: tuple[float, float]
    rate: float
    error: float
    low: float
    high: float
    likelihood: float


def fit_map(evidence: Evidence, total: Total, start: tuple[float, float, float] = START) -> Map:
    """Maximise the likelihood over all ranks' rows.

    Args:
        evidence: This rank's rows.
        total: The sum over ranks.
        start: θ to start from.
    """
    point = torch.tensor(start, dtype=torch.float64)
    here = _summed(evidence, point, total)
    for _ in range(STEPS):
        step = _newton(here)
        point, new = _improved(evidence, point, step, here, total)
        gained, here = new.value - here.value, new
        if gained <= 1e-7 * here.rows:
            break
    variance = torch.linalg.pinv(_definite(-here.hessian))[2, 2]
    rate = float(point[2].sigmoid())
    weights = (float(point[0]), float(point[1]))
    low, high = _likely_rates(evidence, point, total)
    error = rate * (1 - rate) * float(variance) ** 0.5
    return Map(weights, rate, error, low, high, here.value / max(here.rows, 1.0))


def read_out(similarities: Tensor, prior: Tensor, weights: Tensor) -> Tensor:
    """Return log f (B, C)."""
    return (torch.einsum("k,kbc->bc", weights, mapped(similarities)) + prior).log_softmax(1)


def log_noise(given: Tensor, num_classes: int, rate: Tensor, spread: Tensor | None) -> Tensor:
    """Return log P(given | c) (B, C), with a noise rate () or one for each class (C,)."""
    if spread is None:
        other = torch.log(rate / max(num_classes - 1, 1)).expand(len(given), num_classes)
    else:
        other = torch.log(rate) + spread[:, given].T
    right = torch.log1p(-rate).expand(num_classes)[given]
    return other.scatter(1, given[:, None], right[:, None])


def add_log_noise(scores: Tensor, given: Tensor, rate: Tensor, spread: Tensor | None) -> Tensor:
    """Add log P(given | c) to scores (B, C) in place, without what is the same for all classes of a row."""
    if spread is not None or rate.dim():
        return scores.add_(log_noise(given, scores.shape[1], rate, spread))
    more = torch.log1p(-rate) - torch.log(rate / max(scores.shape[1] - 1, 1))
    return scores.scatter_add_(1, given[:, None], more.expand(len(given), 1))


@dataclass(frozen=True)
class _Sums:
    """Sums over the rows of all ranks: log-likelihood, gradient (3,), Hessian (3, 3) and number of rows."""

    value: float
    gradient: Tensor
    hessian: Tensor
    rows: float


def _summed(evidence: Evidence, point: Tensor, total: Total) -> _Sums:
    sums = torch.zeros(14, dtype=torch.float64)
    for part in evidence.parts():
        sums += _part_sums(part, point)
    value, *rest, rows = total(sums).tolist()
    return _Sums(value, torch.tensor(rest[:3]).double(), torch.tensor(rest[3:]).double().view(3, 3), rows)


def _part_sums(part: Evidence, point: Tensor) -> Tensor:
    """Value, gradient, Hessian and rows of some rows in one vector (14,)."""
    weights, rate = point[:2].float(), point[2].sigmoid()
    features = mapped(part.similarities)
    read = (torch.einsum("k,kbc->bc", weights, features) + part.prior).log_softmax(1)
    joint = read + log_noise(part.given, len(part.prior), rate.float(), None)
    value = joint.logsumexp(1)
    chances, posterior = read.exp(), (joint - value[:, None]).exp()
    wrong = 1 - posterior.gather(1, part.given[:, None])[:, 0]
    mean_f, second_f = _moments(features, chances, None)
    mean_q, second_q = _moments(features, posterior, part.given)
    expected = torch.cat([mean_f, rate.expand(len(value), 1)], 1)
    inner = torch.zeros(3, 3, dtype=torch.float64)
    inner[:2, :2] = second_f - mean_f.T @ mean_f
    inner[2, 2] = float(rate * (1 - rate)) * len(value)
    seen = torch.cat([mean_q, wrong.double()[:, None]], 1)
    hessian = second_q - seen.T @ seen - inner
    gradient = (seen - expected).sum(0)
    head = torch.tensor([float(value.double().sum())], dtype=torch.float64)
    return torch.cat([head, gradient, hessian.flatten(), torch.tensor([float(len(value))]).double()])


def _moments(features: Tensor, chances: Tensor, given: Tensor | None) -> tuple[Tensor, Tensor]:
    """Means (B, K) of φ and the sum of the second moments (K, K); with the given classes, those of (φ, I)."""
    means = (features * chances).sum(2).T.double()
    size = len(features) + (given is not None)
    second = torch.zeros(size, size, dtype=torch.float64)
    for one in range(len(features)):
        weighted = features[one] * chances
        for two in range(len(features)):
            second[one, two] = float((weighted * features[two]).sum(dtype=torch.float64))
        if given is not None:
            others = weighted.sum(1) - weighted.gather(1, given[:, None])[:, 0]
            second[one, -1] = second[-1, one] = float(others.sum(dtype=torch.float64))
    if given is not None:
        second[-1, -1] = float((1 - chances.gather(1, given[:, None])).sum(dtype=torch.float64))
    return means, second


def _likely_rates(evidence: Evidence, point: Tensor, total: Total) -> tuple[float, float]:
    """The ends of the 95 % interval of π: few rows or features without information leave it wide."""
    rates = torch.linspace(*_BOUNDS, _GRID, dtype=torch.float64).sigmoid()
    values = torch.zeros(_GRID, dtype=torch.float64)
    for part in evidence.parts():
        read = read_out(part.similarities, part.prior, point[:2].float())
        half = log_noise(part.given, len(part.prior), torch.tensor(0.5), None)
        right = read.gather(1, part.given[:, None]).exp().double()
        wrong = 2 * (read + half).exp().scatter(1, part.given[:, None], 0.0).sum(1).double()
        values += (right * (1 - rates) + wrong[:, None] * rates).clamp_min(1e-300).log().sum(0)
    values = total(values)
    likely = rates[values >= values.max() - 1.92]
    return float(likely.min()), float(likely.max())


def _newton(here: _Sums) -> Tensor:
    step: Tensor = torch.linalg.solve(_definite(-here.hessian), here.gradient)
    return step


def _definite(matrix: Tensor) -> Tensor:
    """The matrix with its eigenvalues made positive, so that a step always climbs."""
    values, vectors = torch.linalg.eigh(matrix)
    values = values.abs().clamp_min(1e-6 * float(values.abs().max()) + 1e-9)
    positive: Tensor = (vectors * values) @ vectors.T
    return positive


def _improved(
    evidence: Evidence, point: Tensor, step: Tensor, here: _Sums, total: Total
) -> tuple[Tensor, _Sums]:
    """The first of the halved steps that raises the likelihood; the point itself if none does."""
    for halving in range(8):
        moved = point + step / 2**halving
        moved[2] = moved[2].clamp(*_BOUNDS)
        new = _summed(evidence, moved, total)
        if new.value > here.value:
            return moved, new
    return point, here
