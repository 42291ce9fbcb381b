"""Directions of features in which all directions count alike.

With m the mean and Σ the covariance of the features, Σ_s = Σ + (tr Σ / D) I = L Lᵀ, a row becomes

    a_i = normalise(L⁻¹ (x_i − m)).

Only angles between the a_i are used, and these do not depend on which square root of Σ_s is taken. Without whitening
the few directions of largest variance decide the angles. The added tr Σ / D bounds the scale of directions without
variance, so D > N and constant features need no special case.

Legend: N rows of all ranks, B rows of a batch, D features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

Passes = Callable[[], Iterator[tuple[Tensor, Tensor]]]
"""One pass over the rows of this rank: batches of places (B,) and features (B, D)."""
Total = Callable[[Tensor], Tensor]
"""The sum of a tensor over all ranks."""

MOST_FEATURES = 2048
"""Rows with more features are projected at random to this many, which keeps angles to about 1 / √2048."""
_SEED = 20190


@dataclass(frozen=True)
class Whitening:
    """The map from features to directions.

    Attributes:
        projection: (D, 2048) random directions; None if D is not larger.
        mean: (R,) m.
        root: (R, R) L⁻ᵀ, zero if all rows are equal.
    """

    projection: Tensor | None
    mean: Tensor
    root: Tensor

    def __call__(self, features: Tensor) -> Tensor:
        """The directions a (B, R), float32."""
        centred = (projected(features, self.projection) - self.mean).float()
        return normalize(centred @ self.root, dim=1)


def fit_whitening(passes: Passes, total: Total) -> tuple[Whitening, Tensor, int]:
    """The whitening of all rows in two passes, their covariance (R, R) and N."""
    sums, count = _sums(passes, total)
    projection = projection_of(len(sums))
    mean = projected(sums[None] / max(count, 1), projection)[0]
    gram = torch.zeros(len(mean), len(mean), dtype=torch.float64)
    for _, features in passes():
        centred = projected(features, projection) - mean
        gram += centred.T @ centred
    covariance = total(gram) / max(count, 1)
    return Whitening(projection, mean, root_of(covariance)), covariance, count


def projected(features: Tensor, projection: Tensor | None) -> Tensor:
    """Features (B, R) float64, of which values that are not finite are 0."""
    values = torch.nan_to_num(features.double(), nan=0.0, posinf=0.0, neginf=0.0)
    return values if projection is None else values @ projection


def _sums(passes: Passes, total: Total) -> tuple[Tensor, int]:
    """Σ x (D,) over all ranks, of which some may have no rows, and N."""
    sums, count = torch.zeros(0, dtype=torch.float64), 0
    for _, features in passes():
        own = projected(features, None).sum(0)
        sums, count = own if not len(sums) else sums + own, count + len(features)
    rows, width, ranks = total(
        torch.tensor([count, len(sums), float(count > 0)], dtype=torch.float64)
    ).tolist()
    if not len(sums):
        sums = torch.zeros(round(width / max(ranks, 1)), dtype=torch.float64)
    return total(sums), round(rows)


def projection_of(width: int) -> Tensor | None:
    """Random directions (D, 2048) for D > 2048, the same on all ranks."""
    if width <= MOST_FEATURES:
        return None
    generator = torch.Generator().manual_seed(_SEED)
    normals = torch.randn(width, MOST_FEATURES, generator=generator, dtype=torch.float64)
    scaled: Tensor = normals / MOST_FEATURES**0.5
    return scaled


def root_of(covariance: Tensor) -> Tensor:
    """L⁻ᵀ (R, R) of the covariance with its mean variance added to the diagonal, float32."""
    variance = float(covariance.diagonal().mean()) if len(covariance) else 0.0
    if not variance > 0:
        return torch.zeros_like(covariance).float()
    identity = torch.eye(len(covariance), dtype=torch.float64)
    lower = torch.linalg.cholesky(covariance / variance + identity)
    inverse: Tensor = torch.linalg.solve_triangular(lower, identity, upper=False)
    root: Tensor = inverse.T / variance**0.5
    return root.float()
