"""Class prototypes and the similarity of a row to each, without the row itself.

With labels y (N, C), one-hot at first, directions a_i and their mean ā, u_i = a_i − ā, the prototype of class c is the
sum S_c = Σ_i y_ic u_i, and

    z_ic = cos(u_i, S_c − y_ic u_i).

The row's own share is removed in closed form, so its label does not attract its own prototype. A class without other
rows has z = 0.

Legend: B rows, R dimensions, C classes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_LEAST = 1e-5  # of the squared length of a prototype: what remains below it is rounding
FLOOR = 0.05
"""Added to similarities before the logarithm; chosen by likelihood among 0.02, 0.05 and 0.1."""


@dataclass(frozen=True)
class Prototypes:
    """Sums of directions by class.

    Attributes:
        centre: (R,) ā.
        sums: (C, R) S.
        prior: (C,) logarithm of the share of each class; very low for a class without rows.
    """

    centre: Tensor
    sums: Tensor
    prior: Tensor

    @classmethod
    def of(cls, sums: Tensor, counts: Tensor) -> Prototypes:
        """From Σ y_ic a_i (C, R) and Σ y_ic (C,), float64, of all rows."""
        rows = counts.sum().clamp_min(1)
        centre = sums.sum(0) / rows
        shares = (counts / rows).clamp_min(_NO_SHARE)
        return cls(centre.float(), (sums - counts[:, None] * centre).float(), shares.log().float())

    def similarities(self, directions: Tensor, own: Tensor) -> Tensor:
        """Return z (B, C) of rows with directions a (B, R), whose own labels are y (B, C).

        Steps are made in place: with many classes, new tensors would take more time than the arithmetic.
        """
        rows = directions - self.centre
        length = rows.square().sum(1, keepdim=True)
        product = rows @ self.sums.T
        whole, own_part = self.sums.square().sum(1), own * length
        rest = (2 * product).sub_(own_part).mul_(own).neg_().add_(whole)
        nothing = (rest <= (own * own_part).add_(whole).mul_(_LEAST)) | (length <= 0)
        lengths = rest.clamp_min_(0).mul_(length).sqrt_().clamp_min_(1e-30)
        return product.sub_(own_part).div_(lengths).clamp_(-1, 1).masked_fill_(nothing, 0.0)


_NO_SHARE = 1e-12


def mapped(similarities: Tensor) -> Tensor:
    """φ (2, B, C): the similarity and the logarithm of its positive part.

    f_c ∝ share_c · e^(w₁ z_c) · (max(z_c, 0) + 0.05)^w₂ is the probability of class c from the features. The power is
    what calibrates suggestions: an exponential alone makes the best class too sure when all classes are dissimilar.
    """
    return torch.stack([similarities, (similarities.clamp_min(0) + FLOOR).log()])
