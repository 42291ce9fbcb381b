"""Sparse over-parametrisation, SOP (Liu et al., ICML 2022): a noise term per example that only few need.

    s = u² ⊙ ŷ - v² ⊙ (1 - ŷ)                          the noise of a label; U and V are its two parts in [0, 1]
    p = φ(f + s)                                       φ: at least ε, then sum 1
    L(θ, u) = -Σ_j ŷ_j log p_j                         the network's and u's loss
    L(v)    = |h + s - ŷ|²                             h one-hot of f's likeliest class; u descends on it too

Squares and a tiny start make gradient descent prefer a sparse s. With r = h + U - V - ŷ and a = f + U - V the
gradients have a closed form, so no automatic differentiation passes through the table:

    dL/dU_j = [a_j > ε] (1/Z - ŷ_j / a_j) + 2 r_j,     Z = Σ_j max(a_j, ε)
    dL/dV_j = -2 r_j
    dL/du   = Σ_j dL/dU_j · 2 u ŷ_j [u² ŷ_j <= 1],     dL/dv_j = dL/dV_j · 2 v_j (1 - ŷ_j) [v_j² (1 - ŷ_j) <= 1]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from pencil.algorithm import Method, Moment, Step, as_distribution, normalized_or
from pencil.algorithm.checks import require, require_amounts

FLOOR = 1e-4  # ε


def noise_parts(u: Tensor, v: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """U and V (B, C): u² ŷ and v² (1 - ŷ), each at most 1, of u (B, 1), v and ŷ (B, C)."""
    return (u.square() * labels).clamp_max(1), (v.square() * (1 - labels)).clamp_max(1)


def corrected_cross_entropy(probs: Tensor, noise: Tensor, labels: Tensor) -> Tensor:
    """-Σ_j ŷ_j log φ(f + s)_j per example (B,)."""
    floored = (probs + noise).clamp_min(FLOOR)
    return -(labels * (floored / floored.sum(dim=1, keepdim=True)).log()).sum(dim=1)


def noise_gradients(u: Tensor, v: Tensor, probs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """(dL/du (B, 1), dL/dv (B, C)) as in the module's docstring."""
    added, removed = noise_parts(u, v, labels)
    moved = probs + added - removed
    floored = moved.clamp_min(FLOOR)
    best = F.one_hot(probs.argmax(dim=1), probs.shape[1])
    residual = 2 * (best + added - removed - labels)
    slope = (moved >= FLOOR) * (1 / floored.sum(dim=1, keepdim=True) - labels / floored) + residual
    free_u, free_v = u.square() * labels <= 1, v.square() * (1 - labels) <= 1
    return (
        (slope * 2 * u * labels * free_u).sum(dim=1, keepdim=True),
        -residual * 2 * v * (1 - labels) * free_v,
    )


@dataclass(frozen=True, kw_only=True)
class SparseOverParametrization(Method):
    """SOP in every phase. A row is (u, v): 1 + C values.

    Attributes:
        rate_u: The step of u per visit: the paper's learning rate of u over its batch size.
        rate_v: The step of v per visit, likewise.
        start: Where u and v begin; their sign means nothing.
    """

    learns_labels: ClassVar[bool] = True
    rate_u: float = 0.08
    rate_v: float = 0.8
    start: float = 1e-8
    name: Literal["sparse_over_parametrization"] = "sparse_over_parametrization"

    def __post_init__(self) -> None:
        require_amounts(self, "rate_u", "rate_v")
        require(0 < self.start < 1, "start", self.start, "must be in (0, 1): from 0 nothing would ever move")

    def row_width(self, num_classes: int) -> int:
        """u, and v for each class."""
        return 1 + num_classes

    def start_rows(self, given: Tensor, num_classes: int) -> Tensor:
        """All (B, 1 + C) at the tiny start."""
        return torch.full((len(given), 1 + num_classes), self.start, device=given.device)

    def label_distribution(self, rows: Tensor, given: Tensor, num_classes: int) -> Tensor:
        """The label without its noise: ŷ - s, at least 0, normalised; ŷ where nothing is left."""
        labels = as_distribution(given, num_classes).to(rows.dtype)
        added, removed = noise_parts(rows[:, :1], rows[:, 1:], labels)
        return normalized_or((labels - added + removed).clamp_min(0), labels)

    def step(self, logits: Tensor, rows: Tensor, given: Tensor, moment: Moment) -> Step:
        """The network's loss, and u and v one gradient step on."""
        probs = logits.softmax(dim=1)
        labels = as_distribution(given, logits.shape[1]).to(logits.dtype)
        u, v = rows[:, :1].to(logits.dtype), rows[:, 1:].to(logits.dtype)
        added, removed = noise_parts(u, v, labels)
        du, dv = noise_gradients(u, v, probs.detach(), labels)
        moved = torch.cat([u - self.rate_u * du, v - self.rate_v * dv], dim=1)
        return Step(corrected_cross_entropy(probs, added - removed, labels), moved)
