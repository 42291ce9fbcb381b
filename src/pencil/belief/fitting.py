"""Fit the model: one penalised likelihood for read-out and noise, and noise as rich as left-out labels allow.

    maximise Σ v log P(g | x) − |w|² / 100 − |a − log share|² / 2 − |ε|² / 2σ² − the gate's

by L-BFGS over all parameters together. The noise has three rungs: ``rate``, one number; ``pairs``, classes whose labels
run into particular others; ``full``, every pair of classes. Each is fitted to either half of the rows and judged on the
other. The whole matrix is preferred unless left-out labels reject it: people confuse particular classes, and by some
thousandths of a nat a poorer model that takes their errors for hard rows would often be chosen.

Legend: N rows, M features of a class, C classes.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

from pencil.belief.descent import minimise
from pencil.belief.directions import sampled
from pencil.belief.gradient import SummedLikelihood
from pencil.belief.model import Model, Said, mean_and_error

CELLS, LEAST_SAMPLE = 300_000, 1000
"""Rows times classes that parameters are fitted to, and the least number of rows."""
FULL_CLASSES, FULL_ROWS = 40, 20
"""The whole matrix is fitted for up to so many classes, with at least so many rows for each of its entries."""
REJECTED_ERRORS, REJECTED_NATS = 2.0, 0.005
"""A rung is rejected by left-out labels that are likelier by so many errors; the whole matrix, also by so many nats."""
GATE_ERRORS = 3.0
NOISY = -2.0
"""A rung starts at least from this η: without noise its gradients vanish, and no structure would be found."""
MUCH_NOISE = 1.0
"""Fits begin with little and with so much η: with much noise a fit that begins with little may end without any."""
PAIRS_WIDTH, FULL_WIDTH = 3.0, 1.5
_LEAST_ETA, _MARGIN = -14.0, 0.1
_GATE = (-4.0, 1.0)


class Rung(NamedTuple):
    """One form of the noise: its name and, for some pairs only, which (C, C) bool."""

    name: str
    pairs: Tensor | None = None


class Tried(NamedTuple):
    """A rung fitted to each half, and the log-likelihood (N,) of the labels of the other half."""

    rung: Rung
    models: tuple[Model, Model]
    likelihood: Tensor


def fitted(
    start: Model, rung: Rung, said: Said, *, gate: bool = False, steps: int = 0, frozen: bool = False
) -> Model:
    """The likeliest model of a rung; with ``frozen`` noise only the read-out is fitted."""
    free = _Free(start, rung, gate=gate, frozen=frozen)
    total, summed = said.weight.sum().clamp_min(1e-9), SummedLikelihood(said, start.share)
    steps = steps or (35 if len(start.share) > FULL_CLASSES else 100)

    def cost() -> Tensor:
        model = free.model()
        return (free.penalty(model) - summed(model)) / total

    least = minimise(cost, free.leaves, steps)
    for leaf in free.leaves:
        leaf.requires_grad_(False)
    return replace(free.model(), value=-least)


class _Free:
    """The parameters of a fit without bounds: positive ones as softplus, which is nearly linear where they are large.

    By η alone a label is right more often than it is any one wrong class, else two classes could swap.
    """

    def __init__(self, start: Model, rung: Rung, *, gate: bool, frozen: bool) -> None:
        self._start, self._rung, self._frozen = start, rung, frozen
        classes = len(start.share)
        self._top = math.log(max(classes - 1, 1)) - _MARGIN
        eta = start.eta.clamp(_LEAST_ETA, self._top - 1e-3)
        # In float64, because steps near the optimum are smaller than float32 resolves.
        self._slopes = _unbound(start.slopes.double().clamp(1e-4, 100.0))
        self._offsets, self._eta = start.offsets.double(), _unbound(self._top - eta.double())
        extra = torch.zeros(classes, classes) if start.extra is None else start.extra
        self._extra = extra.double()
        first = (torch.tensor(_GATE) if start.gate is None else start.gate).double()
        self._gate = torch.stack([first[0], _unbound(first[1].clamp_min(1e-3))]) if gate else None
        self._pairs = rung.pairs if rung.name == "pairs" else ~torch.eye(classes, dtype=torch.bool)
        noise = [] if frozen else [self._eta, *([self._extra] if rung.name != "rate" else [])]
        self.leaves = [self._slopes, self._offsets, *noise, *([self._gate] if self._gate is not None else [])]

    def model(self) -> Model:
        """With the present values."""
        gate = None
        if self._gate is not None:
            gate = torch.stack([self._gate[0], softplus(self._gate[1])]).float()
        slopes, offsets = softplus(self._slopes).float(), self._offsets.float()
        read = replace(self._start, slopes=slopes, offsets=offsets, gate=gate)
        if self._frozen:
            return read
        eta = (self._top - softplus(self._eta)).clamp_min(_LEAST_ETA).float()
        extra = None
        if self._rung.name != "rate":
            assert self._pairs is not None
            extra = self._extra.masked_fill(~self._pairs, 0.0).float()
        return replace(read, rung=self._rung.name, eta=eta, extra=extra)

    def penalty(self, model: Model) -> Tensor:
        """The negative logarithm of the priors."""
        found = 0.01 * model.slopes.square().sum() + 0.5 * (model.offsets - model.share.log()).square().sum()
        if not self._frozen and model.extra is not None:
            width = PAIRS_WIDTH if self._rung.name == "pairs" else FULL_WIDTH
            found = found + 0.5 * model.extra.square().sum() / width**2
        if model.gate is not None:
            away = model.gate - torch.tensor(_GATE)
            found = found + (torch.tensor([0.005, 0.05]) * away.square()).sum()
        return found


def _unbound(positive: Tensor) -> Tensor:
    """The inverse of softplus."""
    return positive + torch.log(-torch.expm1(-positive))


def climbed(said: Said, half: Tensor, start: Model, *, gated: bool) -> Model:
    """The model whose noise left-out labels allow; ``half`` (N,) says which half a row is in."""
    classes = len(start.share)
    some = sampled(len(half), max(LEAST_SAMPLE, CELLS // classes))
    few = some[: max(1200, CELLS // 2 // classes)] if classes > FULL_CLASSES else some
    sample, less, side = said.take(some), said.take(few), half[few]
    begun = (start, replace(start, eta=torch.tensor(MUCH_NOISE)))
    rate = max((fitted(each, Rung("rate"), sample) for each in begun), key=lambda each: each.value)
    tried = [halves(less, side, Rung("rate"), (rate, rate))]
    for rung in richer(said, rate):
        starts = tuple(replace(each, eta=each.eta.clamp_min(NOISY)) for each in tried[0].models)
        tried.append(halves(less, side, rung, starts))
    best = likeliest(tried, less.weight)
    model = rate
    if best.rung.name != "rate":
        model = fitted(replace(rate, eta=rate.eta.clamp_min(NOISY)), best.rung, sample)
    if gated and classes > 2:
        strange = halves(less, side, best.rung, best.models, gate=True).likelihood
        gain, error = mean_and_error(strange - best.likelihood, less.weight)
        model = fitted(model, best.rung, sample, gate=True) if gain > GATE_ERRORS * error else model
    return model


def halves(
    said: Said,
    half: Tensor,
    rung: Rung,
    starts: tuple[Model, ...],
    *,
    gate: bool = False,
    frozen: bool = False,
) -> Tried:
    """Fit a rung to each half of the rows, and judge it on the other."""
    steps = 25 if len(starts[0].share) > FULL_CLASSES else 80
    likelihood, models = torch.zeros(len(half)), []
    for side in (0, 1):
        learned, judged = said.take(half != side), said.take(half == side)
        models.append(fitted(starts[side], rung, learned, gate=gate, steps=steps, frozen=frozen))
        with torch.no_grad():
            likelihood[half == side] = models[-1].likelihood(judged)
    return Tried(rung, (models[0], models[1]), likelihood)


def richer(said: Said, rate: Model) -> list[Rung]:
    """The rungs above one rate that there are classes and rows enough for."""
    classes, rows = len(rate.share), float((said.weight > 0).sum())
    if not 2 < classes <= MOST_PAIRED:
        return []
    with torch.no_grad():
        believed = replace(rate, eta=rate.eta.clamp_min(-1.0)).posterior(said)[:, :classes]
    pairs = excessive(counted(believed, said))
    whole = classes <= FULL_CLASSES and rows >= FULL_ROWS * classes**2
    return [*([Rung("pairs", pairs)] if bool(pairs.any()) else []), *([Rung("full")] if whole else [])]


MOST_PAIRED = 500


def likeliest(tried: list[Tried], weight: Tensor) -> Tried:
    """The whole matrix unless left-out labels reject it clearly; pairs if they clearly ask for them; else one rate."""
    rate, last = tried[0], tried[-1]
    best = max(tried, key=lambda each: mean_and_error(each.likelihood, weight)[0])
    usual = last if last.rung.name == "full" else rate
    gain, error = mean_and_error(best.likelihood - usual.likelihood, weight)
    least = REJECTED_NATS if usual is last else 0.0
    return best if gain > max(REJECTED_ERRORS * error, least) else usual


def counted(believed: Tensor, said: Said) -> Tensor:
    """J (C, C), how often a believed class has each given one."""
    has = said.given >= 0
    joint = torch.zeros(believed.shape[1], believed.shape[1])
    return joint.index_add_(1, said.given[has], (believed * said.weight[:, None])[has].T)


def excessive(joint: Tensor) -> Tensor:
    """(C, C) bool: pairs that occur more often than chance allows, beside the other pairs of the same class."""
    other, chosen = joint.clone().fill_diagonal_(0), torch.zeros(joint.shape, dtype=torch.bool)
    for _ in range(3):
        rest = other.masked_fill(chosen, 0)
        mean = rest.sum(1) / (len(joint) - 1 - chosen.sum(1)).clamp_min(1)
        mean = mean[:, None].clamp_min(float(rest.mean()))
        chosen = other >= 2 + mean + 3 * mean.sqrt()
    return chosen
