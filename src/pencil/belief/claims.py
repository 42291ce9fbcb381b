"""What may be claimed: whether labels may be replaced at all, which, and how many are wrong at least.

From one label a row, errors that look like their features cannot be seen. So the share of wrong labels has a lower end
and no upper one, and labels are replaced only if four plain checks pass:

    known        left-out labels are likelier by the features than by the class shares
    identified   without noise, and heavier tails of the read-out instead, the labels are much less likely
    many rows    noise between particular classes was counted on enough rows of each class
    blind        wrong labels do not follow the features: given the class a row has, they know nothing more of it

| constant | value | chosen |
|---|---|---|
| ``KNOWN_ERRORS``, ``_NATS`` | 3, 0.01 | features that say nothing: at most 5.5, 0.007; real ones: 20, 0.5 and more |
| ``IDENTIFIED_NATS`` | 2 | one feature that is the class, blurred: at most 0.5; labels by people: 80 and more |
| ``BLIND`` | 0.3 | a source with one label for nearly everything: 0.21 to 0.24; labels by people: 0.5 to 0.6 |
| ``UNSURE``, ``DOUBT`` | 0.75, 5 % | read-outs of strong features: 0.81 to 0.89; of 100 classes: 0.60 to 0.71 |

Legend: N rows, C classes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from pencil.belief.directions import sampled
from pencil.belief.fitting import CELLS, FULL_CLASSES, LEAST_SAMPLE, Rung, fitted
from pencil.belief.model import Model, Said, mean_and_error
from pencil.belief.rounds import Reading
from pencil.belief.rows import BeliefRows
from pencil.estimates.noise import less_sure

KNOWN_ERRORS, KNOWN_NATS = 3.0, 0.01
IDENTIFIED_NATS, BLIND = 2.0, 0.3
FEW_ROWS = 60
"""Rows of a class that pairs of many classes are counted on, at least."""
UNSURE, DOUBT, SLIGHT_DOUBT = 0.75, 0.05, 0.02
SURE_OF_ERROR = 0.9


@dataclass(frozen=True)
class Checks:
    """Whether labels may be replaced.

    Attributes:
        known: The features say something about the labels.
        identified: Noise and blurred features can be told apart.
        many_rows: There are rows enough for the noise that was found.
        blind: Wrong labels do not follow the features.
        doubt: By how much suggestions count as less sure.
    """

    known: bool
    identified: bool
    many_rows: bool
    blind: bool = True
    doubt: float = 0.0

    @classmethod
    def told(cls, *, passed: bool) -> Checks:
        """Of a posterior that is known to be allowed to replace labels or not, and not why."""
        return cls(known=True, identified=passed, many_rows=True)

    @property
    def reason(self) -> str:
        """Why labels may not be replaced; an empty text if they may."""
        if not self.known:
            return "the features say nothing about the labels"
        if not self.many_rows:
            return (
                f"labels run between particular classes, which needs {FEW_ROWS} rows of each class to be sure"
            )
        if not self.identified:
            return "labels without errors and blurred features would look the same"
        return "" if self.blind else "labels that seem wrong follow the features as right ones do"

    @property
    def passed(self) -> bool:
        """Whether all did."""
        return self.known and self.identified and self.many_rows and self.blind


def tested(rows: BeliefRows, best: Reading) -> Checks:
    """The checks; that wrong labels are blind is not known yet."""
    shares = best.model.share.log()[rows.given.clamp_min(0)]
    gain, error = mean_and_error(best.likelihood - shares, rows.weight)
    pairs = best.model.rung == "pairs" and rows.classes > FULL_CLASSES
    many = not pairs or float(rows.weight.sum()) >= FEW_ROWS * rows.classes
    known = gain > max(KNOWN_ERRORS * error, KNOWN_NATS)
    return Checks(known, known and _is_identified(rows, best), many)


def _is_identified(rows: BeliefRows, best: Reading) -> bool:
    """Whether labels without noise and a link of heavy tails are much less likely than the noise that was found."""
    some = sampled(len(rows.given), max(LEAST_SAMPLE, CELLS // rows.classes))
    said = Said.of(best.held, rows).take(some)
    model = best.model
    noisy = fitted(model, Rung(model.rung), said, gate=model.gate is not None, steps=30, frozen=True)
    first = Model.first(len(said.phi) + 1, rows)
    slopes = torch.cat([0.3 * model.slopes, torch.tensor([1.0])])
    clean = replace(first, slopes=slopes, eta=torch.tensor(-14.0))
    wide = said._replace(phi=torch.cat([said.phi, best.held.heavy[None, some]]))
    clean = fitted(clean, Rung("rate"), wide, frozen=True)
    return (noisy.value - clean.value) * float(said.weight.sum()) > IDENTIFIED_NATS


def are_blind(log_f: Tensor, given: Tensor, other: Tensor, chosen: Tensor) -> bool:
    """Whether wrong labels of the chosen rows (M,) know only the class, which is ``other`` (N,).

    For a row believed to be t, log f_g − log f_t is compared with the median over rows given t and likest t. At least
    half of the wrong labels lie below it if they do not depend on the features.
    """
    best, below, compared = log_f.argmax(1), 0, 0
    chosen = chosen[given[chosen] >= 0]
    for true in other[chosen].unique():
        alike, mine = log_f[(best == true) & (given == true)], chosen[other[chosen] == true]
        if len(alike) >= 5:
            label, middle = given[mine], (alike - alike[:, true, None]).median(0).values
            below += int((log_f[mine, label] - log_f[mine, true] < middle[label]).sum())
            compared += len(mine)
    return compared < 10 or below >= BLIND * compared


def doubt_of(log_f: Tensor) -> float:
    """By how much suggestions count as less sure: an unsure read-out confuses classes as noise does."""
    return DOUBT if float(log_f.amax(1).exp().mean()) < UNSURE else SLIGHT_DOUBT


class LessDoubt(NamedTuple):
    """Stated confidences where a small share of errors is asked for: half of the share at most is for doubt."""

    factor: float
    offset: float

    @classmethod
    def of(cls, doubt: float, share: float, classes: int) -> LessDoubt:
        """What ``doubted`` took from suggestions, less what may stay of it."""
        factor = (1 - min(doubt, share / 2)) / (1 - doubt)
        return cls(factor, (factor - 1) / max(classes - 1, 1))

    def confidence(self, stated: Tensor) -> Tensor:
        """Confidences with less doubt."""
        return self.factor * stated - self.offset

    def stated(self, confidence: Tensor) -> Tensor:
        """The confidences as they were stated."""
        return (confidence + self.offset) / self.factor


def doubted(posterior: Tensor, given: Tensor, doubt: float) -> Tensor:
    """The posterior (N, C + 1), with suggestions less sure; whether the given label is wrong stays as it is."""
    has, none = given >= 0, posterior[:, -1:]
    classes = posterior[:, :-1] / (1 - none).clamp_min(1e-9)
    less = less_sure(classes, given.clamp_min(0), 1 - doubt)
    return torch.cat([torch.where(has[:, None], less, classes) * (1 - none), none], 1)


def least_wrong(p_wrong: Tensor) -> float:
    """A share of wrong labels that is reached at least, from the rows that are surest to be wrong."""
    chances = p_wrong.sort(descending=True).values.double()
    rows = longest(chances.cumsum(0) >= SURE_OF_ERROR * torch.arange(1, len(chances) + 1))
    return max(0.0, 0.86 * rows - 2 * math.sqrt(0.1 * rows)) / max(len(chances), 1)


def longest(holds: Tensor) -> int:
    """The length of the longest prefix at whose end it holds."""
    places = holds.nonzero()
    return int(places.max()) + 1 if len(places) else 0
