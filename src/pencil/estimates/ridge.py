"""A ridge read-out of the given classes, and its prediction for a row without the row itself.

With centred features h, y the given class one-hot, ȳ the shares of the classes and G = Σ h hᵀ, the read-out and its
leave-one-out form are

    W = (G + λI)⁻¹ Σ h (y − ȳ)ᵀ,    l_n = h_nᵀ (G + λI)⁻¹ h_n + 1/N,    z_n = ȳ + (Wᵀh_n − l_n (y_n − ȳ)) / (1 − l_n).

λ is the multiple of the mean eigenvalue of G with the smallest leave-one-out squared error on the given labels. Ridge
uses what separates the classes within the whole covariance, so it beats prototypes where there are many rows of each
class.

Legend: N rows of all ranks, B rows of a batch, M rows of the sample, R features after projection, C classes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from pencil.estimates.whitening import Total

MULTIPLES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
FLOOR = 0.02
"""Added to read-outs before the logarithm."""
_LEAST = 1e-6  # of 1 − l: a row that alone decides its prediction is not predicted


@dataclass(frozen=True)
class Ridge:
    """The fitted read-out.

    Attributes:
        mean: (R,) of the features.
        basis: (R, R) V (E + λI)^(−1/2), with G = V E Vᵀ.
        weights: (R, C) Σ uᵀ (y − ȳ), with u = h · basis.
        shares: (C,) ȳ.
        rows: N.
    """

    mean: Tensor
    basis: Tensor
    weights: Tensor
    shares: Tensor
    rows: int

    def similarities(self, features: Tensor, given: Tensor) -> Tensor:
        """Return z (B, C) float32 of rows with features (B, R) and given classes (B,)."""
        coordinates = (features.double() - self.mean) @ self.basis
        leverage = coordinates.square().sum(1, keepdim=True) + 1 / max(self.rows, 1)
        own = one_hot(given, len(self.shares)) - self.shares
        left = (coordinates @ self.weights - leverage * own) / (1 - leverage).clamp_min(_LEAST)
        return torch.where(leverage < 1 - _LEAST, self.shares + left, self.shares).float()


def fit_ridge(
    mean: Tensor,
    gram: Tensor,
    sums: Tensor,
    counts: Tensor,
    sample: tuple[Tensor, Tensor],
    total: Total,
) -> Ridge:
    """Fit to the rows of all ranks.

    Args:
        mean: (R,) of the features.
        gram: (R, R) G.
        sums: (C, R) Σ (x − m) by given class.
        counts: (C,) rows by given class.
        sample: Features (M, R) and given classes (M,) of this rank's rows, to choose λ on.
        total: The sum over ranks.
    """
    rows = int(counts.sum())
    shares = counts.double() / max(rows, 1)
    values, vectors = torch.linalg.eigh(gram.double())
    values = values.clamp_min(0)
    cross = vectors.T @ (sums.double() - shares[:, None] * sums.double().sum(0)).T
    scale = float(values.sum()) / max(int((values > 1e-9 * values.max()).sum()), 1)
    if not scale > 0:
        return Ridge(mean, torch.zeros_like(vectors), torch.zeros_like(cross), shares, rows)

    def made(multiple: float) -> Ridge:
        root = (values + multiple * scale).rsqrt()
        return Ridge(mean, vectors * root, root[:, None] * cross, shares, rows)

    return min((made(multiple) for multiple in MULTIPLES), key=lambda ridge: _error(ridge, *sample, total))


def _error(ridge: Ridge, features: Tensor, given: Tensor, total: Total) -> float:
    """The leave-one-out squared error of the given labels, summed over ranks."""
    error = ridge.similarities(features, given) - one_hot(given, len(ridge.shares))
    return float(total(error.double().square().sum()[None])[0])


def mapped(similarities: Tensor) -> Tensor:
    """φ (2, B, C): the read-out and the logarithm of its positive part, see ``prototypes.mapped``."""
    return torch.stack([similarities, (similarities.clamp_min(0) + FLOOR).log()])
