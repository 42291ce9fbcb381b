"""Forward correction (Patrini et al., CVPR 2017): teach the network through the noise.

    L = -Σ_j ŷ_j log (Tᵀ f)_j              T[i, j] is the probability that class i is labelled j
    T̂[i, j] = f_j(x̄ⁱ)                      x̄ⁱ an example, the anchor, that is surely of class i: high in f_i

T̂ is read off the network that the backbone phase trained with cross entropy: an example that it takes for class i
beyond doubt shows at f_j how often class i is labelled j.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from pencil.algorithm import Method, Moment, Step, Survey, cross_entropy
from pencil.algorithm.checks import require
from pencil.algorithm.transition import Matrix, as_settings, wrong_row
from pencil.errors import RunError

TINY = 1e-12
BINS_PER_OCTAVE, OCTAVES = 128, 24
BINS = BINS_PER_OCTAVE * OCTAVES  # of probabilities from 2^-24, or below, to 1
Transition = Literal["estimated", "noise"] | Matrix


def forward_loss(logits: Tensor, given: Tensor, transition: Tensor) -> Tensor:
    """-Σ_j ŷ_j log (Tᵀ f)_j per example (B,)."""
    labelled = (logits.softmax(dim=1) @ transition.to(logits.dtype)).clamp_min(TINY).log()
    if given.dim() == 1:
        return -labelled.gather(1, given[:, None])[:, 0]
    return -(given.to(logits.dtype) * labelled).sum(dim=1)


def bins_of(probs: Tensor) -> Tensor:
    """Which bin each probability is in (B, C), on a grid of 0.8 % or finer: the upper bits of a float32, in order."""
    return ((probs.float().view(torch.int32) >> 16) - ((127 - OCTAVES) << 7)).clamp(0, BINS - 1).long()


def estimated_transition(survey: Survey, quantile: float) -> Tensor:
    """T̂ (C, C): row i is the mean prediction of the examples whose f_i is at the quantile, to the width of a bin.

    Two passes, each a sum over the ranks: count f_i in bins to find the quantile's, then average over that bin.
    """
    num_classes = survey.num_classes
    counts = torch.zeros(num_classes, BINS, dtype=torch.float64)
    for _, probs, _ in survey.predictions():
        bins = bins_of(probs) + BINS * torch.arange(num_classes)
        counts += torch.bincount(bins.flatten(), minlength=BINS * num_classes).view_as(counts)
    at = _quantile_bins(survey.total(counts), quantile)
    sums = torch.zeros(num_classes, num_classes, dtype=torch.float64)
    for _, probs, _ in survey.predictions():
        sums += (bins_of(probs) == at).double().T @ probs.double()
    rows = survey.total(sums)
    return (rows / rows.sum(dim=1, keepdim=True)).float()


def _quantile_bins(counts: Tensor, quantile: float) -> Tensor:
    """For each class the bin (C,) of the example that has a share ``1 - quantile`` above it, at least none."""
    above = counts.flip(1).cumsum(dim=1)
    wanted = (above[:, -1:] * (1 - quantile)).floor() + 1
    return counts.shape[1] - 1 - (above < wanted).sum(dim=1)


@dataclass(frozen=True, kw_only=True)
class Forward(Method):
    """Cross entropy with the given labels, through T. Nothing is kept per example; T is shared by all.

    Attributes:
        transition: ``estimated`` after the backbone phase (which trains with plain cross entropy), ``noise`` for the
            matrix of the run's own synthetic noise, or the matrix itself.
        anchor: Which of the N / C examples likeliest to be of a class is its anchor, as a share; 0 is the likeliest.
            The paper's 97th percentile is 0.3 at 10 classes; at 100 it would be outside the class's own examples.
    """

    transition: Transition = "estimated"
    anchor: float = 0.3
    name: Literal["forward"] = "forward"

    def __post_init__(self) -> None:
        require(0 <= self.anchor < 1, "anchor", self.anchor, "must be at least 0 and below 1")
        if isinstance(self.transition, tuple):
            require(
                wrong_row(self.transition) is None,
                "transition",
                self.transition,
                "must be square, its rows probabilities that sum to 1",
            )

    @property
    def wants_noise(self) -> bool:
        """Where ``transition`` asks for it."""
        return self.transition == "noise"

    def with_noise(self, matrix: Tensor | None) -> Forward:
        """With the noise's own matrix as T."""
        require(
            matrix is not None,
            "transition",
            self.transition,
            "needs data.noise; use 'estimated', or give the matrix",
        )
        assert matrix is not None
        return replace(self, transition=as_settings(matrix))

    def start_shared(self, num_classes: int) -> dict[str, Tensor]:
        """The matrix where it is known; zeros until it is estimated."""
        if not isinstance(self.transition, tuple):
            return {"transition": torch.zeros(num_classes, num_classes)}
        wide = len(self.transition)
        require(
            wide == num_classes, "transition", f"{wide} × {wide}", f"must be {num_classes} × {num_classes}"
        )
        return {"transition": torch.tensor(self.transition)}

    def survey_due(self, moment: Moment) -> bool:
        """As the first correction phase begins: later on the network has learned through T̂."""
        begins = moment.phase.name == "correction" and moment.elapsed == 0
        known = any(bool(matrix.any()) for matrix in moment.shared.values())
        return self.transition == "estimated" and begins and not known

    def survey(self, survey: Survey, shared: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """T̂ from the network's predictions for all examples."""
        return {"transition": estimated_transition(survey, 1 - self.anchor / survey.num_classes)}

    def step(self, logits: Tensor, rows: Tensor, given: Tensor, moment: Moment) -> Step:
        """Cross entropy before T̂ is known, then the forward loss."""
        if self.transition == "estimated" and moment.phase.name == "backbone":
            return Step(cross_entropy(logits, given))
        transition = moment.shared["transition"]
        if not float(transition[0].sum()):
            raise RunError(
                f"method.transition: {self.transition!r}, but there is no matrix yet; it is estimated as a correction "
                "phase begins (in a loop of your own: LabelLearner.survey), or give it: a matrix, or data.noise"
            )
        return Step(forward_loss(logits, given, transition.to(logits.device)))
