"""Joint optimisation (Tanaka et al., CVPR 2018): a label becomes the average of the network's last predictions.

    L = KL(y || f) + α L_p + β L_e
    L_p = -Σ_j p_j log f̄_j,   f̄ = the batch's mean of f     up to a constant
    L_e = -Σ_j f_j log f_j
    y <- mean of f over the last 10 epochs                  or its likeliest class alone (hard)

KL(y || f) and the cross entropy with y differ by the entropy of y, which no weight of the network can change.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor
from torch.nn import functional as F

from pencil.algorithm import Method, Moment, Phase, Step, as_distribution, cross_entropy, entropy_loss
from pencil.algorithm.checks import require, require_amounts

LabelKind = Literal["soft", "hard"]
WIDEST = 1000  # a row remembers as many predictions


def prior_loss(logits: Tensor, prior: Tensor) -> Tensor:
    """L_p of a batch (a scalar): cross entropy of the batch's mean prediction (C,) against the prior (C,)."""
    log_mean = logits.log_softmax(dim=1).logsumexp(dim=0) - math.log(len(logits))  # its gradient is bounded
    return -(prior * log_mean).sum()


@dataclass(frozen=True, kw_only=True)
class JointOptimization(Method):
    """Labels that follow the network's own predictions.

    backbone: the given labels, while predictions are remembered. correction: the average of the remembered ones, once
    ``window`` of them are there. finetune: cross entropy with fixed labels, as in the paper's second training.

    A row is the label (C values) and the last ``window`` predictions (window times C, the newest last).

    Attributes:
        labels: ``soft``: the average itself. ``hard``: one-hot, its likeliest class.
        window: How many epochs are averaged, at most 1000.
        prior_weight: α. It presumes that the true class frequencies are known; 0 does without, as the PENCIL paper
            ran this method.
        entropy_weight: β.
        prior: p, the frequencies of the classes; None means all alike.
    """

    learns_labels: ClassVar[bool] = True
    rows_are_beliefs: ClassVar[bool] = True
    labels: LabelKind = "soft"
    window: int = 10
    prior_weight: float = 0.0
    entropy_weight: float = 0.8
    prior: tuple[float, ...] | None = None
    name: Literal["joint_optimization"] = "joint_optimization"

    def __post_init__(self) -> None:
        require(self.labels in get_args(LabelKind), "labels", self.labels, "is unknown; use soft or hard")
        require(1 <= self.window <= WIDEST, "window", self.window, f"must be from 1 to {WIDEST} epochs")
        require_amounts(self, "prior_weight", "entropy_weight")
        if self.prior is not None:
            sums_to_one = all(share >= 0 for share in self.prior) and abs(sum(self.prior) - 1) < 1e-4
            require(sums_to_one, "prior", self.prior, "must be frequencies that sum to 1")

    def warnings(self, phases: Sequence[Phase], *, hard: bool) -> Sequence[str]:
        """Why no label ever moves."""
        epochs = {
            name: sum(each.epochs for each in phases if each.name == name)
            for name in ("backbone", "correction")
        }
        before = sum(epochs.values())
        if not epochs["correction"] or before >= self.window:
            return ()
        return (
            f"method.window = {self.window}: no label will move, because only {before} epochs come before finetune; "
            "set it to fewer epochs",
        )

    def row_width(self, num_classes: int) -> int:
        """The label and the remembered predictions."""
        return (1 + self.window) * num_classes

    def start_rows(self, given: Tensor, num_classes: int) -> Tensor:
        """The given label, nothing remembered."""
        self._prior(num_classes)
        return F.pad(as_distribution(given, num_classes), (0, self.window * num_classes))

    def label_distribution(self, rows: Tensor, given: Tensor, num_classes: int) -> Tensor:
        """The label (B, C)."""
        return rows[:, :num_classes]

    def step(self, logits: Tensor, rows: Tensor, given: Tensor, moment: Moment) -> Step:
        """The loss and, until the finetune phase, the rows with this visit's prediction."""
        classes = logits.shape[1]
        label, remembered = rows[:, :classes], rows[:, classes:]
        phase = moment.phase.name
        if phase == "finetune":
            return Step(cross_entropy(logits, label))
        if phase == "correction":
            label = self._label(remembered, label)
        latest = torch.cat([remembered[:, classes:], logits.detach().softmax(dim=1).to(rows.dtype)], dim=1)
        following = self._label(latest, label) if phase == "correction" else label
        return Step(self._loss(logits, label), torch.cat([following, latest], dim=1))

    def _label(self, remembered: Tensor, otherwise: Tensor) -> Tensor:
        """The average of the remembered predictions where there is a whole window of them, else ``otherwise``."""
        classes = otherwise.shape[1]
        average = remembered.unflatten(1, (self.window, classes)).mean(dim=1)
        if self.labels == "hard":
            average = F.one_hot(average.argmax(dim=1), classes).to(average.dtype)
        whole = remembered[:, :classes].sum(dim=1, keepdim=True) > 0  # the oldest is there
        return torch.where(whole, average, otherwise)

    def _loss(self, logits: Tensor, label: Tensor) -> Tensor:
        loss = cross_entropy(logits, label)
        if self.entropy_weight:
            loss = loss + self.entropy_weight * entropy_loss(logits)
        if self.prior_weight:
            loss = loss + self.prior_weight * prior_loss(
                logits, logits.new_tensor(self._prior(logits.shape[1]))
            )
        return loss

    def _prior(self, classes: int) -> tuple[float, ...]:
        prior = (1 / classes,) * classes if self.prior is None else self.prior
        words = f"must have one frequency for each of {classes} classes"
        require(len(prior) == classes, "prior", prior, words)
        return prior
