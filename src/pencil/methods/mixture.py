"""Two Gaussians for the losses of all examples, from sums that ranks can add.

Losses are counted in bins 0.8 % wide, each with the sum of its losses, so that a rank sends 8000 numbers instead of its
losses and every rank fits the same mixture. Losses are scaled to [0, 1] by the least and the greatest. Two means start
the expectation-maximisation (EM), which ends after ten rounds or where the likelihood hardly grows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

UNSEEN = -1.0
"""In place of the loss of an example that has none."""
BINS_PER_OCTAVE, LOWEST, HIGHEST = (
    128,
    -24,
    7,
)  # 2^-24, or below, to 2^7: no float32 probability is below 2^-126
BINS = BINS_PER_OCTAVE * (HIGHEST - LOWEST)
ROUNDS, TOLERANCE, FLOOR = (
    10,
    1e-2,
    5e-4,
)  # of EM: rounds, least growth of the mean log-likelihood, least variance
MEANS_ROUNDS = 100
TINY = 1e-12


class LossCounts(NamedTuple):
    """How many losses of each network lie in each bin, and their sums, (N, BINS) float64 both."""

    counts: Tensor
    sums: Tensor

    @classmethod
    def empty(cls, networks: int) -> LossCounts:
        """No losses."""
        return cls(*(torch.zeros(networks, BINS, dtype=torch.float64) for _ in range(2)))

    def with_losses(self, losses: Tensor) -> LossCounts:
        """With the losses (B, N) of a batch as well; those below 0 are none."""
        seen = (losses >= 0).double().T
        bins = bins_of(losses.clamp_min(0)).T
        return LossCounts(
            self.counts.scatter_add(1, bins, seen), self.sums.scatter_add(1, bins, losses.double().T * seen)
        )


class Mixture(NamedTuple):
    """Two Gaussians, the one of the lower mean first: (2,) each."""

    means: Tensor
    variances: Tensor
    weights: Tensor


def bins_of(losses: Tensor) -> Tensor:
    """Which bin each loss is in: the upper bits of a float32, in order."""
    upper = losses.float().contiguous().view(torch.int32) >> 16
    return (upper - ((127 + LOWEST) << 7)).clamp(0, BINS - 1).long()


def start_mixtures(networks: int) -> dict[str, Tensor]:
    """What ``fitted_mixtures`` returns before there are losses: means, variances, weights and ranges (N, 2) each."""
    pair = {"means": (0.0, 1.0), "variances": (1.0, 1.0), "weights": (0.5, 0.5), "ranges": (0.0, 1.0)}
    return {name: torch.tensor([values] * networks, dtype=torch.float64) for name, values in pair.items()}


def fitted_mixtures(counted: LossCounts) -> dict[str, Tensor]:
    """A mixture for each network; ``ranges`` are the least and the greatest loss."""
    found = start_mixtures(len(counted.counts))
    for network, (counts, sums) in enumerate(zip(*counted, strict=True)):
        occupied = counts > 0
        if not occupied.any():
            continue
        losses, counts = (sums / counts)[occupied], counts[occupied]
        found["ranges"][network] = torch.stack([losses[0], losses[-1]])
        fitted = fitted_mixture(_scaled(losses, found["ranges"][network]), counts)
        for name, values in fitted._asdict().items():
            found[name][network] = values
    return found


def fitted_mixture(points: Tensor, counts: Tensor) -> Mixture:
    """EM from two means, on points (K,) in [0, 1] that count (K,) times."""
    start = torch.tensor([0.0, 1.0], dtype=points.dtype)
    mixture = _maximised(points, counts, _two_means(points, counts, start), start)
    before = None
    for _ in range(ROUNDS):
        joint = _log_joint(points, mixture)
        likelihood = float((counts * joint.logsumexp(dim=1)).sum() / counts.sum())
        mixture = _maximised(points, counts, joint.softmax(dim=1), mixture.means)
        if before is not None and abs(likelihood - before) < TOLERANCE:
            break
        before = likelihood
    order = mixture.means.argsort(stable=True)
    return Mixture(*(values[order] for values in mixture))


def lower_posterior(losses: Tensor, mixtures: Mapping[str, Tensor]) -> Tensor:
    """P(the component of lower mean | loss) (B, N) float64 of each network's losses (B, N), by its own mixture."""
    shared = {name: values.to(losses.device) for name, values in mixtures.items()}
    points = _scaled(losses.double(), shared["ranges"].T)
    joint = _log_joint(points, Mixture(shared["means"], shared["variances"], shared["weights"]))
    return joint.softmax(dim=-1)[..., 0]


def _scaled(losses: Tensor, ranges: Tensor) -> Tensor:
    least, greatest = ranges.unbind()
    return (losses - least) / (greatest - least).clamp_min(TINY)


def _log_joint(points: Tensor, mixture: Mixture) -> Tensor:
    """Log π_k N(x; μ_k, σ_k²) (..., 2) without the constant, of points (...)."""
    squares = (points[..., None] - mixture.means).square() / mixture.variances
    return mixture.weights.clamp_min(TINY).log() - (squares + mixture.variances.log()) / 2


def _maximised(points: Tensor, counts: Tensor, shares: Tensor, means: Tensor) -> Mixture:
    """The mixture from the points' shares (K, 2) in it; a component without points keeps its mean."""
    mass = counts[:, None] * shares
    sizes = mass.sum(dim=0)
    held = sizes.clamp_min(TINY)
    means = torch.where(sizes > TINY, (mass * points[:, None]).sum(dim=0) / held, means)
    variances = (mass * (points[:, None] - means).square()).sum(dim=0) / held + FLOOR
    return Mixture(means, variances, sizes / counts.sum())


def _two_means(points: Tensor, counts: Tensor, centers: Tensor) -> Tensor:
    """Shares (K, 2) of 0 and 1: each point with the nearer of two means."""
    shares = _nearer(points, centers)
    for _ in range(MEANS_ROUNDS):
        centers = _maximised(points, counts, shares, centers).means
        moved = _nearer(points, centers)
        if torch.equal(moved, shares):
            break
        shares = moved
    return shares


def _nearer(points: Tensor, centers: Tensor) -> Tensor:
    upper = (points > centers.mean()).to(points.dtype)
    return torch.stack([1 - upper, upper], dim=1)
