"""The map from features to whitened directions, fitted to some rows.

With Σ_s the covariance of the features and its mean variance added to the diagonal, a row is its direction
a = white / |white| and its relative length l = |white| / median, white = Σ_s^(−1/2) (x − m). Features whose scales
differ much are first divided by their quartile range and clipped; which of the two is better, left-out labels say.

Legend: N rows, B rows, D features, R directions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pencil.estimates.whitening import projected, projection_of, root_of

CLIP = 5.0
_SEED = 20190


@dataclass(frozen=True)
class Directions:
    """The map.

    Attributes:
        mean: (D,) float64.
        varied: (D,) bool, features that are not constant.
        middle: What varied features are moved by before they are clipped; None if they are not clipped.
        scale: What they are divided by.
        projection: Of very many features to fewer; None for few.
        centre: (R,) the mean of what comes out of it.
        root: (R, R) Σ_s^(−1/2).
        length: () the median length of white rows.
    """

    mean: Tensor
    varied: Tensor
    middle: Tensor | None
    scale: Tensor
    projection: Tensor | None
    centre: Tensor
    root: Tensor
    length: Tensor

    @classmethod
    def of(cls, features: Tensor, *, clipped: bool) -> Directions:
        """Fit to features (N, D)."""
        x = _finite(features)
        mean = x.mean(0, dtype=torch.float64)
        x = (x.double() - mean).float()
        spread = x.double().square().mean(0).sqrt().float()
        varied = spread > 1e-9 * spread.max()
        x, spread = x[:, varied], spread[varied]
        nothing, one = torch.zeros(0), torch.ones(())
        if not len(spread):
            return cls(mean, varied, None, one, None, nothing, nothing, one)
        middle, scale = _quartiles(x, spread) if clipped else (None, spread.max())
        found = cls(mean, varied, middle, scale, projection_of(len(spread)), nothing, nothing, one)
        plain = found._plain(x)
        centre = plain.mean(0)
        plain -= centre
        gram = torch.zeros(plain.shape[1], plain.shape[1], dtype=torch.float64)
        for some in plain.split(8192):
            gram += some.double().T @ some.double()
        root = root_of(gram / len(plain))
        length = (plain @ root).norm(dim=1).median().clamp_min(1e-12)
        return replace(found, centre=centre, root=root, length=length)

    def __call__(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Directions (B, R) of length 1, and relative lengths (B, 1)."""
        if not len(self.root):
            return torch.zeros(len(features), 1), torch.ones(len(features), 1)
        x = (_finite(features).double() - self.mean).float()[:, self.varied]
        white = (self._plain(x) - self.centre) @ self.root
        length = white.norm(dim=1, keepdim=True)
        return white / length.clamp_min(1e-12), length / self.length

    def _plain(self, x: Tensor) -> Tensor:
        """Varied features less their mean, before they are whitened."""
        x = x / self.scale if self.middle is None else ((x - self.middle) / self.scale).clamp_(-CLIP, CLIP)
        return x if self.projection is None else projected(x, self.projection).float()


def directions(features: Tensor, *, clipped: bool) -> tuple[Tensor, Tensor]:
    """Directions (N, R) and relative lengths (N, 1) of features (N, D) by the map fitted to them."""
    return Directions.of(features, clipped=clipped)(features)


def sampled(rows: int, most: int) -> Tensor:
    """The numbers of at most ``most`` random rows."""
    return torch.randperm(rows, generator=torch.Generator().manual_seed(_SEED))[:most]


def _finite(features: Tensor) -> Tensor:
    return torch.nan_to_num(features, nan=0.0, posinf=0.0, neginf=0.0).float()


def _quartiles(x: Tensor, spread: Tensor) -> tuple[Tensor, Tensor]:
    """The median and the quartile range of each feature; where that is small, the standard deviation."""
    places = torch.tensor([0.25, 0.5, 0.75])
    low, middle, high = torch.quantile(x[sampled(len(x), 1000)], places, dim=0)
    quartile = (high - low) / 1.349
    return middle, torch.where(quartile > 0.2 * spread, quartile, spread)
