"""The model of the labels: a read-out, the noise of the given labels, and rows of no class.

    log f_c = w · φ_c + a_c − log Σ                         w ≥ 0
    P(g | t) = softmax_g L_tg,  L_tt = 0,  L_tg = η + ε_tg − log(C − 1)
    P(none | x) = σ(g₀ + g₁ s),  P(g | none) = share of g    s, how far the row is from all classes

A verified label says its class with probability 0.99, whatever the noise; a row without a label says nothing.

Legend: N rows, M features of a class, C classes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from pencil.belief.readout import HeldOut
from pencil.belief.rows import BeliefRows

VERIFIED = 0.99
_LEAST = 1e-12


class Said(NamedTuple):
    """What a model is asked about: features of the classes, and the labels.

    Attributes:
        phi: (M, N, C).
        strange: (N,).
        given: (N,); −1 for none.
        sure: (N,) bool.
        weight: (N,).
    """

    phi: Tensor
    strange: Tensor
    given: Tensor
    sure: Tensor
    weight: Tensor

    @classmethod
    def of(cls, held: HeldOut, rows: BeliefRows, phi: Tensor | None = None) -> Said:
        """All rows; with other features of the classes, if given."""
        return cls(held.phi if phi is None else phi, held.strange, rows.given, rows.sure, rows.weight)

    def take(self, places: Tensor) -> Said:
        """Some rows."""
        return Said(self.phi[:, places], *(each[places] for each in self[1:]))


@dataclass(frozen=True)
class Model:
    """The parameters.

    Attributes:
        slopes: (M,) w.
        offsets: (C,) a.
        share: (C,) shares of the given classes.
        rung: How rich the noise is: ``rate``, ``pairs`` or ``full``.
        eta: () η.
        extra: (C, C) ε; None for one rate.
        gate: (2,) g; None if every row has a class.
        value: The mean penalised log-likelihood it was fitted with.
    """

    slopes: Tensor
    offsets: Tensor
    share: Tensor
    rung: str
    eta: Tensor
    extra: Tensor | None = None
    gate: Tensor | None = None
    value: float = 0.0

    @classmethod
    def first(cls, features: int, rows: BeliefRows) -> Model:
        """Where every fit starts."""
        said = rows.given >= 0
        counts = torch.bincount(rows.given[said], rows.weight[said].double(), rows.classes).float() + 0.5
        share = counts / counts.sum()
        slopes = torch.tensor([0.8, 0.4, 0.5, 0.5])[:features]
        return cls(slopes, share.log(), share, "rate", torch.tensor(-2.0))

    def log_f(self, phi: Tensor) -> Tensor:
        """(N, C) what the features say."""
        total = self.offsets + self.slopes[0] * phi[0]
        for slope, each in zip(self.slopes[1:], phi[1:], strict=True):
            total = total + slope * each
        return total.log_softmax(1)

    def log_noise(self) -> Tensor:
        """(C, C) log P(g | t), t in rows."""
        classes = len(self.offsets)
        levels = (self.eta - math.log(max(classes - 1, 1))).expand(classes, classes)
        levels = levels if self.extra is None else levels + self.extra
        return levels.masked_fill(torch.eye(classes, dtype=torch.bool), 0.0).log_softmax(1)

    def log_rates(self) -> Tensor:
        """``log_noise``; of one rate (2,) the right and each wrong label alone, so that there may be many classes."""
        if self.extra is not None:
            return self.log_noise()
        wrong = -softplus(-self.eta) - math.log(max(len(self.offsets) - 1, 1))
        return torch.stack([-softplus(self.eta), wrong])

    def heard(self, said: Said) -> Tensor:
        """(N, C) log P(what was said | t)."""
        found = heard_of(self.log_rates(), said.given.clamp_min(0), len(self.offsets))
        return found.index_copy(0, *unheard(said, len(self.offsets)))

    def joint(self, log_f: Tensor, said: Said) -> tuple[Tensor, Tensor]:
        """Log P(t, what was said | x) (N, C), and log P(no class, what was said | x) (N,)."""
        both = log_f + self.heard(said)
        if self.gate is None:
            return both, both.new_full((len(both),), -math.inf)
        chance = self.gate[0] + self.gate[1] * said.strange
        none = logsigmoid(chance) + torch.where(
            said.given < 0, 0.0, self.share.log()[said.given.clamp_min(0)]
        )
        none = none.masked_fill(said.sure, math.log(_LEAST))
        return both - softplus(chance)[:, None], none

    def likelihood(self, said: Said) -> Tensor:
        """(N,) log P(given | x)."""
        both, none = self.joint(self.log_f(said.phi), said)
        return both.logsumexp(1) if self.gate is None else torch.logaddexp(both.logsumexp(1), none)

    def posterior(self, said: Said, log_f: Tensor | None = None) -> Tensor:
        """(N, C + 1) the probability of each class, and of no class; from another read-out, if given."""
        both, none = self.joint(self.log_f(said.phi) if log_f is None else log_f, said)
        return torch.cat([both, none[:, None]], 1).softmax(1)


def heard_of(noise: Tensor, label: Tensor, classes: int) -> Tensor:
    """(N, C) log P(label | t) for labels (N,), by ``Model.log_rates``."""
    if noise.dim() == 2:
        return noise.T[label]
    alike = noise[1].expand(len(label), classes)
    return alike.scatter(1, label[:, None], noise[0].expand(len(label), 1))


def unheard(said: Said, classes: int) -> tuple[Tensor, Tensor]:
    """Rows (M,) whose label has no noise, because it was verified or is missing, and log P(label | t) (M, C) there."""
    rows = (said.sure | (said.given < 0)).nonzero()[:, 0]
    given, found = (
        said.given[rows],
        torch.full((len(rows), classes), math.log((1 - VERIFIED) / max(classes - 1, 1))),
    )
    found = found.scatter(1, given.clamp_min(0)[:, None], math.log(VERIFIED))
    return rows, found.masked_fill(given[:, None] < 0, 0.0)


def mean_and_error(values: Tensor, weight: Tensor) -> tuple[float, float]:
    """The weighted mean of values (N,) and its standard error."""
    total = weight.sum().double().clamp_min(_LEAST)
    mean = (values.double() * weight).sum() / total
    return float(mean), float((((values - mean) * weight) ** 2).sum().sqrt() / total)
