"""Rounds: better labels make better prototypes, and those better labels, while left-out labels become likelier.

Each fold has labels of its own: the posterior of all rows by the read-out that did not see the fold, so that what is
said about the fold's labels stays out of sample. Two chains compete with the plain one:

1. The rigid chain reads similarities alone and keeps its noise; the flexible read-out is then fitted to that noise.
   Given the freedom, a flexible read-out explains people's errors as hard rows. It takes over where left-out labels
   are clearly likelier by it: where a class is many clusters, or no cluster at all.
2. Structure: where many rows are likest another class, but few labels count as wrong, noise between particular classes
   may have polluted every prototype. Rounds that undo it begin from rates of the clearest rows.

Legend: N rows, M features of a class, C classes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pencil.belief.directions import sampled
from pencil.belief.fitting import (
    CELLS,
    FULL_CLASSES,
    LEAST_SAMPLE,
    Rung,
    climbed,
    excessive,
    fitted,
    halves,
)
from pencil.belief.model import Model, Said, mean_and_error
from pencil.belief.readout import RIGID, HeldOut, held_out, read
from pencil.belief.rows import MANY_CLASSES, BeliefRows
from pencil.estimates.likelihood import log_noise
from pencil.estimates.sharpness import sharpness_of, tilt_to
from pencil.estimates.structure import spreading

ROUNDS, STRUCTURE_ROUNDS = 5, 4
MOST_CELLS = 3_000_000
"""With more rows times classes, there is one round."""
HALF_ERROR, LEAST_GAIN, LEAST_GAIN_OF_STRUCTURE = 0.5, 5e-4, 0.015
"""A round counts if left-out labels gain half a standard error and so many nats a row."""
CONVINCED = 0.02
"""Structure is believed if left-out labels are so many nats a row likelier by it."""
FLEXIBLE_ERRORS, FLEXIBLE_NATS = 3.0, 0.005
"""The flexible read-out's own noise is believed if left-out labels are likelier by so many errors and nats a row."""
SUSPECT = 0.35
"""Structure is looked for if the share of wrong labels is below this part of the rows that are likest another class."""
_ALL: tuple[float, ...] = ()


@dataclass(frozen=True)
class Reading:
    """A model, what it reads, and how likely left-out labels are by it.

    Attributes:
        model: The model.
        held: Features of the classes.
        labels: Of each fold, that the read-outs learned from.
        likelihood: (N,) of the given labels.
    """

    model: Model
    held: HeldOut
    labels: list[Tensor]
    likelihood: Tensor

    @classmethod
    def of(cls, model: Model, held: HeldOut, labels: list[Tensor], rows: BeliefRows) -> Reading:
        """A model of what was read."""
        with torch.no_grad():
            return cls(model, held, labels, model.likelihood(Said.of(held, rows)))


def rounds_of(rows: BeliefRows) -> Reading:
    """The best reading of the rows."""
    given = [rows.one_hot()] * rows.folds
    rigid = 2 < rows.classes <= FULL_CLASSES
    best = _rigid(rows, given) if rigid else chain(rows, given)
    return _structured(rows, best) if _is_suspect(rows, best) else best


def chain(
    rows: BeliefRows,
    labels: list[Tensor],
    *,
    features: int | None = None,
    begin: Model | None = None,
    best: Reading | None = None,
) -> Reading:
    """Rounds from some labels; with ``begin``, of that model's pairs only, where they beat ``best`` clearly."""
    last, before = None, best
    for number in range(ROUNDS if _keeps(rows) else 1):
        held = held_out(rows, labels, features, whole=_keeps(rows))
        model = _model(rows, held, begin, gated=rows.classes <= FULL_CLASSES or number == 0)
        found = Reading.of(model, held, labels, rows)
        if last is not None and not _gains(
            found, last, rows, LEAST_GAIN if begin is None else LEAST_GAIN_OF_STRUCTURE
        ):
            break
        last = found
        if before is None or _gain(found, before, rows)[0] > CONVINCED:
            best = found
        labels = [_labels(model, part, found, rows) for part in held.parts]
    assert best is not None
    return best


def _keeps(rows: BeliefRows) -> bool:
    return rows.classes <= MANY_CLASSES and len(rows.given) * rows.classes <= MOST_CELLS


def _model(rows: BeliefRows, held: HeldOut, begin: Model | None, *, gated: bool) -> Model:
    said = Said.of(held, rows)
    if begin is None:
        return climbed(said, rows.half, Model.first(len(held.phi), rows), gated=gated)
    some = sampled(len(rows.given), max(LEAST_SAMPLE, CELLS // rows.classes))
    return fitted(
        begin, Rung("pairs", (begin.extra != 0) if begin.extra is not None else None), said.take(some)
    )


def _labels(model: Model, part: Tensor, found: Reading, rows: BeliefRows) -> Tensor:
    with torch.no_grad():
        return model.posterior(Said.of(found.held, rows, part))[:, : rows.classes]


def _gain(found: Reading, before: Reading, rows: BeliefRows) -> tuple[float, float]:
    return mean_and_error(found.likelihood - before.likelihood, rows.weight)


def _gains(found: Reading, before: Reading, rows: BeliefRows, least: float) -> bool:
    gain, error = _gain(found, before, rows)
    return gain > max(HALF_ERROR * error, least)


def _rigid(rows: BeliefRows, given: list[Tensor]) -> Reading:
    """The flexible read-out with the noise of the rigid chain, or with its own if left-out labels say so clearly."""
    rigid = chain(rows, given, features=RIGID)
    held = held_out(rows, rigid.labels, whole=_keeps(rows))
    said, rung = Said.of(held, rows), Rung(rigid.model.rung)
    rest = torch.full((len(held.phi) - 1,), 0.2)
    start = replace(rigid.model, slopes=torch.cat([0.7 * rigid.model.slopes, rest]))
    some = sampled(len(rows.given), max(LEAST_SAMPLE, CELLS // rows.classes))
    kept = fitted(start, rung, said.take(some), gate=start.gate is not None, frozen=True)
    found = Reading.of(kept, held, rigid.labels, rows)
    first = held if rigid.labels is given else held_out(rows, given, whole=False)
    own = halves(Said.of(first, rows), rows.half, Rung("rate"), (Model.first(len(held.phi), rows),) * 2)
    gain, error = mean_and_error(own.likelihood - found.likelihood, rows.weight)
    if gain > max(FLEXIBLE_ERRORS * error, FLEXIBLE_NATS):
        return chain(rows, given)
    return found


def _is_suspect(rows: BeliefRows, best: Reading) -> bool:
    if rows.classes == 2 or not _keeps(rows):
        return False
    if rows.classes > FULL_CLASSES and best.model.rung == "pairs":
        return True
    with torch.no_grad():
        said = Said.of(best.held, rows)
        right = best.model.posterior(said).gather(1, rows.given.clamp_min(0)[:, None])[:, 0]
        unlike = best.model.log_f(said.phi).argmax(1) != rows.given
    wrong = mean_and_error(1 - right, rows.weight)[0]
    return wrong < SUSPECT * mean_and_error(unlike.float(), rows.weight)[0]


def _structured(rows: BeliefRows, best: Reading) -> Reading:
    """Rounds from labels with noise between particular classes undone, if left-out labels say so clearly."""
    undone = [_undone(rows, fold) for fold in range(rows.folds)]
    joint = torch.stack([counts for _, counts in undone]).mean(0)
    pairs = excessive(joint)
    share = joint / joint.diagonal()[:, None].clamp_min(1)
    extra = (share.clamp_min(1e-6).log() + 1 + math.log(rows.classes - 1)).clamp(-3, 6)
    begin = Model.first(len(best.held.phi), rows)
    begin = replace(
        begin,
        slopes=3 * begin.slopes,
        eta=torch.tensor(-1.0),
        rung="pairs",
        extra=torch.where(pairs, torch.where(extra == 0, 1e-3, extra), 0.0),
    )
    return chain(rows, [labels for labels, _ in undone], begin=begin, best=best)


def _undone(rows: BeliefRows, fold: int) -> tuple[Tensor, Tensor]:
    """Labels (N, C) for the read-out of a fold, and the last counts J (C, C)."""
    labels, learned = rows.one_hot(), (rows.fold != fold) & (rows.given >= 0)
    share = labels.mean(0).clamp_min(1e-6).log()
    given, sharp, joint = rows.given.clamp_min(0), 20.0, torch.empty(0)
    some = sampled(len(given), 2000)
    for number in range(STRUCTURE_ROUNDS):
        similar = read(rows, labels, fold, features=RIGID)[0] / 10
        rate = torch.tensor(1 - _agreement(similar, given, learned))
        nearest = torch.nn.functional.one_hot(similar.argmax(1), rows.classes).float()
        believed = (labels if number else nearest) * learned[:, None]
        joint = torch.zeros(rows.classes, rows.classes).index_add_(
            1, given, (believed * rows.weight[:, None]).T
        )
        spread = spreading(joint.double())[0]
        noise = log_noise(given, rows.classes, rate, spread)
        sharp = sharpness_of(similar[some], noise[some], sharp, _own)
        scores = sharp * similar + noise
        labels = (scores + tilt_to(scores, share, _own)).softmax(1)
    return labels, joint


def _own(values: Tensor) -> Tensor:
    return values


def _agreement(similar: Tensor, given: Tensor, learned: Tensor) -> float:
    """The share of right labels among the clearest tenth of the rows."""
    top = similar.topk(2, 1)
    lead = (top.values[:, 0] - top.values[:, 1]).masked_fill(~learned, -1)
    most = max(int(0.1 * int(learned.sum())), min(500, len(given) // 2))
    clear = lead.topk(most).indices
    return min(max(float((top.indices[clear, 0] == given[clear]).float().mean()), 0.02), 0.98)
