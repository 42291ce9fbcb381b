"""Co-teaching (Han et al., NeurIPS 2018): two networks, each taught by what the other finds easy.

    R(t) = 1 - τ min(t / t_k, 1)                                       the share of a batch that is kept
    D_1 = the R(t) B examples with the least cross entropy by network 1, D_2 by network 2
    network 1 learns from the mean cross entropy over D_2, network 2 from that over D_1

Networks learn right labels first, so a label with a small loss is probably right. Two networks filter each other's
mistakes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from pencil.algorithm import Method, Moment, Step, cross_entropy
from pencil.algorithm.checks import require, require_positive


def easiest(losses: Tensor, count: int) -> Tensor:
    """1 for the ``count`` least of the losses (B,), 0 for the others."""
    chosen = torch.zeros_like(losses)
    chosen[losses.detach().argsort(stable=True)[:count]] = 1
    return chosen


def exchanged_losses(first: Tensor, second: Tensor, count: int) -> Tensor:
    """Both networks' losses (B,) over what the other one chose, scaled so that a mean over B is a mean over those."""
    kept = easiest(second, count) * first + easiest(first, count) * second
    return kept * (len(first) / count)


@dataclass(frozen=True, kw_only=True)
class CoTeaching(Method):
    """Two networks in one model: ``model.name = "pair"``, whose logits in training are (B, 2, C).

    backbone: everything is kept. correction: the share left out grows to τ. finetune: it stays there. Nothing is kept
    per example. The choice is made within a rank's own part of a batch, or a pass of an accumulated one.

    Attributes:
        forget_rate: τ; set it to the share of wrong labels.
        gradual: t_k, the epochs of the correction phase after which the whole τ is left out.
    """

    networks: ClassVar[int] = 2
    forget_rate: float = 0.2
    gradual: float = 10.0
    name: Literal["co_teaching"] = "co_teaching"

    def __post_init__(self) -> None:
        require(0 <= self.forget_rate < 1, "forget_rate", self.forget_rate, "must be at least 0 and below 1")
        require_positive(self, "gradual")

    def kept_share(self, moment: Moment) -> float:
        """R(t)."""
        if moment.phase.name == "backbone":
            return 1.0
        grown = min(moment.elapsed / self.gradual, 1.0) if moment.phase.name == "correction" else 1.0
        return 1 - self.forget_rate * grown

    def step(self, logits: Tensor, rows: Tensor, given: Tensor, moment: Moment) -> Step:
        """Each network's cross entropy over the other's choice, from logits (B, 2, C)."""
        require(logits.dim() == 3, "logits", tuple(logits.shape), "must be of two networks, (B, 2, C)")
        first, second = (cross_entropy(each, given) for each in logits.unbind(dim=1))
        count = max(1, int(self.kept_share(moment) * len(given)))
        return Step(exchanged_losses(first, second, count))
