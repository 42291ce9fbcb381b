"""Early-learning regularisation, ELR (Liu et al., NeurIPS 2020): keep to what the network believed early on.

    t <- β t + (1 - β) f                      a running average of the predictions, from t = 0
    L = L_ce + λ log(1 - <t, f>)

The second term falls as f nears t: its gradient pulls predictions to the average and so outweighs that of a wrong
label, which the average does not share.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from pencil.algorithm import Method, Moment, Step, as_distribution, cross_entropy, normalized_or
from pencil.algorithm.checks import require, require_amounts

MARGIN = 1e-4  # what 1 - <t, f> is at least, so that its logarithm stays finite


def early_learning_term(probs: Tensor, target: Tensor) -> Tensor:
    """log(1 - <t, f>) per example (B,), of predictions and targets (B, C)."""
    return (1 - (target * probs).sum(dim=1)).clamp_min(MARGIN).log()


@dataclass(frozen=True, kw_only=True)
class EarlyLearning(Method):
    """ELR in every phase. A row is the target t (B, C), and its belief t / Σ t.

    Attributes:
        regularization: λ.
        momentum: β, how slowly the target follows the predictions.
    """

    learns_labels: ClassVar[bool] = True
    regularization: float = 3.0
    momentum: float = 0.7
    name: Literal["early_learning"] = "early_learning"

    def __post_init__(self) -> None:
        require_amounts(self, "regularization")
        require(0 <= self.momentum < 1, "momentum", self.momentum, "must be at least 0 and below 1")

    def row_width(self, num_classes: int) -> int:
        """One value per class."""
        return num_classes

    def start_rows(self, given: Tensor, num_classes: int) -> Tensor:
        """Targets t = 0, (B, C): no prediction has been seen."""
        return as_distribution(given, num_classes) * 0

    def label_distribution(self, rows: Tensor, given: Tensor, num_classes: int) -> Tensor:
        """The target, normalised; the given label before the first visit."""
        return normalized_or(rows, as_distribution(given, num_classes))

    def step(self, logits: Tensor, rows: Tensor, given: Tensor, moment: Moment) -> Step:
        """The loss with the target that already has this visit's prediction in it, as in the paper."""
        probs = logits.softmax(dim=1)
        target = self.momentum * rows + (1 - self.momentum) * probs.detach()
        loss = cross_entropy(logits, given) + self.regularization * early_learning_term(probs, target)
        return Step(loss, target)
