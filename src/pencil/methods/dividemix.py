"""DivideMix (Li, Socher & Hoi, ICLR 2020): two networks divide the examples for each other, then learn with MixMatch.

    l_i = -Σ_j ŷ_j log f_j                                before each epoch, by either network
    w_i = P(the component of lower mean | l_i)            of two Gaussians fitted to the OTHER network's losses
    labelled: w_i >= τ, unlabelled: the rest
    ȳ_i = w_i ŷ_i + (1 - w_i) mean_m f(x_im)              labelled: refined by the network itself, over M views
    q_i = mean over both networks and the views of f      unlabelled: guessed by both
    y_i = sharpened: y_j^(1/T) / Σ_k y_k^(1/T)
    x' = λ x_a + (1 - λ) x_b, y' likewise                 λ ~ Beta(α, α), at least 1/2, so that x' counts as x_a does
    L = L_X + λ_u(t) L_U + Σ_j π_j log(π_j / f̄_j)         π uniform, f̄ the mean prediction of the batch

L_X is the mean cross entropy of the labelled, L_U the mean squared error of the unlabelled. Networks learn right labels
first, so a label of small loss is likely right, and the others' examples still teach without it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from pencil.algorithm import (
    Guess,
    Method,
    Mixing,
    Moment,
    Step,
    Survey,
    as_distribution,
    cross_entropy,
    entropy_loss,
)
from pencil.algorithm.checks import require, require_amounts, require_positive
from pencil.errors import RunError
from pencil.methods.mixture import UNSEEN, LossCounts, fitted_mixtures, lower_posterior, start_mixtures

NETWORKS = 2
LEAST, MOST_VIEWS = 1e-3, 100
TINY = torch.finfo(torch.float32).tiny


def given_losses(probs: Tensor, given: Tensor) -> Tensor:
    """Cross entropy (B, N) of several networks' predictions (B, N, C) against ŷ."""
    target = as_distribution(given, probs.shape[2]).to(probs.dtype)
    return -(target[:, None] * probs.clamp_min(TINY).log()).sum(dim=2)


def sharpened(target: Tensor, temperature: float) -> Tensor:
    """Eq. 7: y_j^(1/T) / Σ_k y_k^(1/T) along the last dimension."""
    powers = (target / target.amax(dim=-1, keepdim=True)) ** (1 / temperature)  # the largest is 1, whatever T
    return powers / powers.sum(dim=-1, keepdim=True)


def guessed_targets(
    probs: Tensor, given: Tensor, clean: Tensor, labelled: Tensor, temperature: float
) -> Tensor:
    """Each network's targets (B, N, C), Eq. 6-8.

    Args:
        probs: Predictions (M, B, N, C) for M views.
        given: ŷ.
        clean: w (B, N) of each network, from the other network.
        labelled: (B, N) bool of each network, from the other network.
        temperature: T.
    """
    own = probs.mean(dim=0)
    believed = as_distribution(given, probs.shape[3]).to(probs.dtype)[:, None]
    refined = clean[..., None] * believed + (1 - clean[..., None]) * own
    both = own.mean(dim=1, keepdim=True).expand_as(own)
    return sharpened(torch.where(labelled[..., None], refined, both), temperature)


def divided_losses(logits: Tensor, targets: Tensor, labelled: Tensor, unlabelled_weight: float) -> Tensor:
    """L_X + λ_u L_U + the prior's penalty, Eq. 9-12, of both networks together: (B,), whose mean over B it is.

    Args:
        logits: (B, N, C).
        targets: (B, N, C).
        labelled: (B, N) bool.
        unlabelled_weight: λ_u at this moment.
    """
    log_probs = logits.log_softmax(dim=2)
    probs = log_probs.exp()
    known = labelled.to(logits.dtype)
    supervised = _weights(known) * -(targets * log_probs).sum(dim=2)
    guessed = _weights(1 - known) * (probs - targets).square().mean(dim=2)
    log_seen = log_probs.logsumexp(dim=0) - math.log(len(logits))  # of the mean; its gradient is bounded
    penalty = -math.log(logits.shape[2]) - log_seen.mean(dim=1)
    return (supervised + unlabelled_weight * guessed + penalty).sum(dim=1)


def _weights(chosen: Tensor) -> Tensor:
    """Weights that turn a mean over the batch into one over the chosen (B, N), 1 or 0."""
    return chosen / chosen.mean(dim=0).clamp_min(TINY)


@dataclass(frozen=True, kw_only=True)
class DivideMix(Method):
    """Two networks in one model: ``model.name = "pair"``, whose logits in training are (B, 2, C).

    backbone: cross entropy, the paper's warm-up. correction: λ_u grows. finetune: it is whole. A row is the example's
    loss by either network before the current epoch; a trusted row has none and always counts as labelled.

    Attributes:
        threshold: τ, how probably a label must be right for its example to be labelled.
        temperature: T, below 1 sharpens targets; at least 1e-3, where they are one-hot already.
        unlabelled_weight: λ_u; the paper has 0 to 150, the more the more noise.
        ramp: The epochs of the correction phase over which λ_u grows from 0.
        alpha: α of the Beta distribution of λ; at least 1e-3, where nothing is mixed any more.
        views: M, the augmented views of an example; at most 100, for a batch is as many times as large.
        confidence_penalty: How much Σ_j f_j log f_j is added in the backbone phase; 1 for asymmetric noise.
    """

    networks: ClassVar[int] = 2
    threshold: float = 0.5
    temperature: float = 0.5
    unlabelled_weight: float = 25.0
    ramp: float = 16.0
    alpha: float = 4.0
    views: int = 2
    confidence_penalty: float = 0.0
    name: Literal["dividemix"] = "dividemix"

    def __post_init__(self) -> None:
        require(0 <= self.threshold <= 1, "threshold", self.threshold, "must be between 0 and 1")
        require_positive(self, "temperature", "ramp", "alpha")
        for field in ("temperature", "alpha"):
            value = getattr(self, field)
            require(value >= LEAST, field, value, f"must be above 0, at least {LEAST:g}")
        require_amounts(self, "unlabelled_weight", "confidence_penalty")
        require(1 <= self.views <= MOST_VIEWS, "views", self.views, f"must be from 1 to {MOST_VIEWS}")

    def row_width(self, num_classes: int) -> int:
        """The two losses."""
        return NETWORKS

    def start_rows(self, given: Tensor, num_classes: int) -> Tensor:
        """No loss is known yet: (B, 2) of a mark that no loss can be."""
        return torch.full((len(given), NETWORKS), UNSEEN, device=given.device)

    def start_shared(self, num_classes: int) -> dict[str, Tensor]:
        """The mixtures of both networks."""
        return start_mixtures(NETWORKS)

    def survey_due(self, moment: Moment) -> bool:
        """Before every epoch that divides."""
        return self.mixes(moment)

    def survey(self, survey: Survey, shared: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Writes the losses (B, 2) of all rows, and fits a mixture for each network to them."""
        for indices, probs, given in survey.predictions():
            _require_two(probs, "predictions")
            survey.write(indices, given_losses(probs, given))
        counts = LossCounts.empty(NETWORKS)
        for _, losses, _ in survey.rows():
            counts = counts.with_losses(losses)
        return fitted_mixtures(LossCounts(*map(survey.total, counts)))

    def mixing(self) -> Mixing:
        """The method itself."""
        return self

    def mixes(self, moment: Moment) -> bool:
        """In every phase but the first."""
        return moment.phase.name != "backbone"

    def clean_probability(self, rows: Tensor, moment: Moment) -> Tensor:
        """The w (B, 2) of each network, from the other one's losses and mixture; 1 where there is no loss."""
        posterior = lower_posterior(rows, moment.shared)
        return torch.where(rows < 0, 1.0, posterior).flip(1)

    def guess(self, logits: Tensor, rows: Tensor, given: Tensor, moment: Moment) -> Guess:
        """The targets of each network, from logits (M, B, 2, C) of the views."""
        _require_two(logits[0], "logits")
        clean = self.clean_probability(rows, moment).to(logits.dtype)
        labelled = clean >= self.threshold
        targets = guessed_targets(logits.softmax(dim=3), given, clean, labelled, self.temperature)
        return Guess(targets, labelled)

    def mixed_loss(self, logits: Tensor, guess: Guess, moment: Moment) -> Tensor:
        """Eq. 9-12 per example (B,), from logits (B, 2, C) of mixed inputs and their mixed targets."""
        return divided_losses(logits, guess.targets, guess.labelled, self._unlabelled_weight(moment))

    def step(self, logits: Tensor, rows: Tensor, given: Tensor, moment: Moment) -> Step:
        """The backbone phase: both networks' cross entropy, from logits (B, 2, C)."""
        _require_two(logits, "logits")
        if self.mixes(moment):
            raise RunError(
                f"method dividemix learns from mixed examples in the {moment.phase.name} phase; "
                "train with pencil.engine.Loop, or call guess and mixed_loss in place of loss"
            )
        losses = [
            cross_entropy(each, given) - self.confidence_penalty * entropy_loss(each)
            for each in logits.unbind(dim=1)
        ]
        return Step(torch.stack(losses).sum(dim=0))

    def _unlabelled_weight(self, moment: Moment) -> float:
        grown = min(moment.elapsed / self.ramp, 1.0) if moment.phase.name == "correction" else 1.0
        return self.unlabelled_weight * grown


def _require_two(values: Tensor, what: str) -> None:
    two = values.dim() == 3 and values.shape[1] == NETWORKS
    require(two, what, tuple(values.shape), "must be of two networks, (B, 2, C)")
