"""Symmetric cross entropy (Wang et al., ICCV 2019): cross entropy, and the same with its arguments exchanged.

    L_sce = α L_ce + β L_rce,    L_rce = -Σ_j f_j log ŷ_j,    log 0 := A < 0

For a hard label L_rce = -A (1 - f_ŷ): the mean absolute error, which tolerates noise, beside the cross entropy,
which learns fast.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from pencil.algorithm import Method, Moment, Step, as_distribution, cross_entropy
from pencil.algorithm.checks import require, require_amounts

LOWEST = -80.0


def reverse_cross_entropy(logits: Tensor, given: Tensor, log_zero: float) -> Tensor:
    """L_rce per example (B,): -Σ_j f_j log max(ŷ_j, e^A)."""
    labels = as_distribution(given, logits.shape[1]).to(logits.dtype)
    return -(logits.softmax(dim=1) * labels.clamp_min(math.exp(log_zero)).log()).sum(dim=1)


@dataclass(frozen=True, kw_only=True)
class SymmetricCrossEntropy(Method):
    """α L_ce + β L_rce in every phase. Nothing is kept per example.

    Attributes:
        cross_weight: α, of the cross entropy.
        reverse_weight: β, of the reverse cross entropy.
        log_zero: A, in place of log 0; at least -80, because float32 has no e^A below -87.
    """

    cross_weight: float = 0.1
    reverse_weight: float = 1.0
    log_zero: float = -4.0
    name: Literal["symmetric_cross_entropy"] = "symmetric_cross_entropy"

    def __post_init__(self) -> None:
        require_amounts(self, "cross_weight", "reverse_weight")
        require(
            LOWEST <= self.log_zero < 0, "log_zero", self.log_zero, f"must be below 0 and at least {LOWEST}"
        )

    def step(self, logits: Tensor, rows: Tensor, given: Tensor, moment: Moment) -> Step:
        """α L_ce + β L_rce per example."""
        reverse = reverse_cross_entropy(logits, given, self.log_zero)
        return Step(self.cross_weight * cross_entropy(logits, given) + self.reverse_weight * reverse)
