"""Generalized cross entropy (Zhang & Sabuncu, NeurIPS 2018): between cross entropy and the mean absolute error.

    L_q(f, ŷ) = (1 - f_ŷ^q) / q         q -> 0 is cross entropy, q = 1 is half the mean absolute error
    L_trunc   = L_q(k) where f_ŷ <= k, else L_q(f, ŷ)       with L_q(k) = (1 - k^q) / q

A truncated example has no gradient. The paper's Algorithm 1 keeps that choice as a weight w per example,
chooses it anew every few epochs and trains on w L_q + (1 - w) L_q(k) in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from pencil.algorithm import Method, Moment, Phase, Step
from pencil.algorithm.checks import require

LEAST = 1e-6


def generalized_cross_entropy(logits: Tensor, given: Tensor, q: float) -> Tensor:
    """L_q per example (B,): Σ_j ŷ_j (1 - f_j^q) / q, for hard and soft labels alike."""
    log_probs = F.log_softmax(logits, dim=1)
    if given.dim() == 1:
        return -torch.expm1(q * log_probs.gather(1, given[:, None])[:, 0]) / q
    return -(given.to(logits.dtype) * torch.expm1(q * log_probs)).sum(dim=1) / q


@dataclass(frozen=True, kw_only=True)
class GeneralizedCrossEntropy(Method):
    """L_q in every phase; with a threshold, truncated L_q.

    A row is the weight w, 1 or 0, where there is a threshold, and nothing otherwise. A visit after every ``refresh``
    epochs of the correction phase chooses w anew, for later visits. Until then all weights are 1; in the finetune phase
    they stay fixed.

    Attributes:
        q: Between 0 (cross entropy) and 1 (mean absolute error); at least 1e-6, because float32 loses smaller values.
        threshold: k, the probability of the given label at which an example is left out; None leaves none out.
        refresh: Epochs between two choices of the weights.
    """

    q: float = 0.7
    threshold: float | None = None
    refresh: int = 10
    name: Literal["generalized_cross_entropy"] = "generalized_cross_entropy"

    def __post_init__(self) -> None:
        require(
            LEAST <= self.q <= 1,
            "q",
            self.q,
            f"must be above 0 (at least {LEAST:g}; cross entropy below) and at most 1",
        )
        require(
            self.threshold is None or 0 < self.threshold < 1, "threshold", self.threshold, "must be in (0, 1)"
        )
        require(self.refresh >= 1, "refresh", self.refresh, "must be at least 1 epoch")

    def warnings(self, phases: Sequence[Phase], *, hard: bool) -> Sequence[str]:
        """Why the threshold is never used."""
        longest = max((phase.epochs for phase in phases if phase.name == "correction"), default=0)
        if self.threshold is None or longest > self.refresh:
            return ()
        return (
            f"method.threshold = {self.threshold} is never used: weights are chosen every {self.refresh} epochs of "
            f"correction, and the longest correction phase has {longest}; set method.refresh to fewer epochs",
        )

    def row_width(self, num_classes: int) -> int:
        """One weight, or nothing."""
        return 0 if self.threshold is None else 1

    def start_rows(self, given: Tensor, num_classes: int) -> Tensor:
        """Every example counts: weights (B, 1) of 1."""
        return torch.ones(len(given), self.row_width(num_classes), device=given.device)

    def step(self, logits: Tensor, rows: Tensor, given: Tensor, moment: Moment) -> Step:
        """L_q, weighted where there is a threshold; w is chosen at the visit and used from the next one on."""
        loss = generalized_cross_entropy(logits, given, self.q)
        if self.threshold is None:
            return Step(loss)
        limit = (1 - self.threshold**self.q) / self.q
        weight = rows[:, 0].to(loss.dtype)
        weighted = weight * loss + (1 - weight) * limit
        epoch = int(moment.elapsed)
        if moment.phase.name != "correction" or not epoch or epoch % self.refresh:
            return Step(weighted)
        return Step(weighted, (loss.detach() < limit).to(rows.dtype)[:, None])
