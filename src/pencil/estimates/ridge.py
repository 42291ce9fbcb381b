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
START = (1.0, 3.0, -2.0)
"""Where the fit of the map from read-outs to probabilities starts, see ``likelihood``."""
TRIED = 4000
"""Rows of a rank that λ is chosen on."""
_LEAST = 1e-5  # of 1 − l: a row that alone decides its prediction is not predicted


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
        centred = (features.double() - self.mean).float()
        return _left_out(centred @ self.basis, self.weights, self.shares, given, self.rows)


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
    values, vectors = _eigen(gram.double())
    cross = vectors.T @ (sums.double() - shares[:, None] * sums.double().sum(0)).T
    scale = float(values.sum()) / max(int((values > 1e-9 * values.max()).sum()), 1)
    if not scale > 0:
        return Ridge(
            mean, torch.zeros_like(vectors).float(), torch.zeros_like(cross).float(), shares.float(), rows
        )

    features, given = (each[:TRIED] for each in sample)
    turned = (features.double() - mean).float() @ vectors.float()

    def error(multiple: float) -> float:
        root = (values + multiple * scale).rsqrt()
        found = _left_out(
            turned * root.float(), (root[:, None] * cross).float(), shares.float(), given, rows
        ) - one_hot(given, len(shares))
        return float(total(found.double().square().sum()[None])[0])

    root = (values + min(MULTIPLES, key=error) * scale).rsqrt()
    return Ridge(mean, (vectors * root).float(), (root[:, None] * cross).float(), shares.float(), rows)


def _eigen(gram: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues (R,), none below 0, and vectors (R, R) of G; the same on every rank.

    LAPACK's fast routine can fail if far more features than rows leave most eigenvalues at 0. Moved away from 0 they
    do not stop it.
    """
    try:
        values, vectors = torch.linalg.eigh(gram)
        return values.clamp_min(0), vectors
    except RuntimeError:  # torch.linalg.LinAlgError is one
        shift = 1e-9 * float(gram.diagonal().mean())
        values, vectors = torch.linalg.eigh(gram + shift * torch.eye(len(gram), dtype=gram.dtype))
        return (values - shift).clamp_min(0), vectors


def _left_out(coordinates: Tensor, weights: Tensor, shares: Tensor, given: Tensor, rows: int) -> Tensor:
    """Return z (B, C) from u (B, R)."""
    leverage = coordinates.square().sum(1, keepdim=True) + 1 / max(rows, 1)
    own = one_hot(given, len(shares)) - shares
    left = (coordinates @ weights - leverage * own) / (1 - leverage).clamp_min(_LEAST)
    return torch.where(leverage < 1 - _LEAST, shares + left, shares)
