"""Find the belief about every label: P(t | all that was said about the row) ∝ f_t(x) · Π P(opinion | t, who said it).

1. Directions, groups of copies, folds and neighbours of the rows (``directions``, ``rows``).
2. Read-outs of each row without itself (``readout``), and noise as rich as left-out labels allow (``model``,
   ``fitting``), in rounds of better labels (``rounds``).
3. A second read-out, of which a part is mixed in unless left-out labels reject it (``head``).
4. Checks of whether labels may be replaced at all (``claims``).

Of very many rows the belief is found from some, and the others are read by it (``reader``).

Legend: N rows, D features, C classes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from pencil.belief.belief import SHARE, Belief, surely
from pencil.belief.claims import are_blind, doubt_of, doubted, tested
from pencil.belief.directions import Directions
from pencil.belief.fitting import CELLS, FULL_CLASSES, Rung, climbed, fitted
from pencil.belief.head import MIXED, linear_read_outs, read_linearly, with_second
from pencil.belief.model import Model, Said, mean_and_error
from pencil.belief.reader import Reader, with_usual
from pencil.belief.readout import held_out, probabilities_held_out, read
from pencil.belief.rounds import Reading, rounds_of
from pencil.belief.rows import MANY_CLASSES, BeliefRows, alone_rows, grouped_rows

REJECTED_ERRORS, REJECTED_NATS = 2.0, 0.002
"""A part of the second read-out is rejected if left-out labels are less likely with it by so many errors and nats."""
FEWEST_COMPARED = 2
MOST_NUMBERS = 100_000_000
"""With more features and probabilities of classes, a belief is found from some rows: ``MOST_ROWS``, or more to have
``ROWS_OF_A_CLASS``."""
MOST_ROWS, ROWS_OF_A_CLASS = 50_000, 100
_SEED = 20190
_LIKELY_STEPS, _LIKELY_ROWS = 30, 300


def believe(
    features: Tensor, given: Tensor, classes: int, sure: Tensor | None = None, before: Tensor | None = None
) -> Belief:
    """Find the belief about all rows from their features.

    Args:
        features: (N, D).
        given: (N,) given classes; −1 for a row without a label.
        classes: C.
        sure: (N,) bool, rows whose given class was verified.
        before: (N,) the classes of verified rows before people said what they are, which tells about other rows; −1
            where that is not known. None for nowhere.
    """
    some = found_from(len(features), features.shape[1], classes)
    if len(some) == len(features):
        return believe_and_read(features, given, classes, sure, before)[0]
    verified = torch.zeros(len(given), dtype=torch.bool) if sure is None else sure
    known = torch.full_like(given, -1) if before is None else before
    belief, reader = believe_and_read(features[some], given[some], classes, verified[some], known[some])
    answered = verified & (known >= 0)
    asked = torch.where(answered, known, given)
    others = reader(features, asked, verified & ~answered)
    posterior = others.posterior.index_copy(0, some, belief.posterior)
    likeliest = others.likeliest.index_copy(0, some, belief.likeliest)
    return Belief(
        asked, posterior, torch.where(verified, given, likeliest), belief.checks, _answers(answered, given)
    )


def found_from(rows: int, width: int, classes: int) -> Tensor:
    """The numbers (M,), ascending, of the rows that a belief about so many is found from: all if they are not too many.

    Args:
        rows: N.
        width: D.
        classes: C.
    """
    most = MOST_NUMBERS // (width + classes)
    if rows <= most:
        return torch.arange(rows)
    enough = min(max(MOST_ROWS, ROWS_OF_A_CLASS * classes), most)
    some: Tensor = torch.randint(rows, (enough,), generator=torch.Generator().manual_seed(_SEED)).unique()
    return some


def believe_and_read(
    features: Tensor, given: Tensor, classes: int, sure: Tensor | None = None, before: Tensor | None = None
) -> tuple[Belief, Reader]:
    """The belief about rows as ``believe`` finds it, and what reads other rows by it."""
    verified = torch.zeros(len(given), dtype=torch.bool) if sure is None else sure
    map_, rows = _rows(features, given, verified, classes)
    best = rounds_of(rows)
    belief, weights, right = _belief(rows, best, mixes=2 < classes <= FULL_CLASSES, before=before)
    return belief, Reader(map_, rows, best, weights, right, belief.checks.doubt)


def believe_probabilities(probabilities: Tensor, given: Tensor, sure: Tensor | None = None) -> Belief:
    """Find the belief from a model's probabilities (N, C) of rows that it did not learn from."""
    verified = torch.zeros(len(given), dtype=torch.bool) if sure is None else sure
    nothing = torch.zeros(len(given), 1)
    rows = alone_rows((nothing, nothing + 1), given, verified, probabilities.shape[1])
    held = probabilities_held_out(probabilities)
    model = climbed(Said.of(held, rows), rows.half, Model.first(len(held.phi), rows), gated=True)
    return _belief(rows, Reading.of(model, held, [], rows), mixes=False).belief


class _Found(NamedTuple):
    """A belief, the weights of the second read-out if it is mixed in, and how often given labels are right."""

    belief: Belief
    weights: list[Tensor]
    right: float


class _Read(NamedTuple):
    """Log f (N, C), the posterior (N, C + 1), the likeliest class (N,), and the weights of the second read-out."""

    log_f: Tensor
    posterior: Tensor
    likeliest: Tensor
    weights: list[Tensor]

    @classmethod
    def of(cls, log_f: Tensor, posterior: Tensor) -> _Read:
        return cls(log_f, posterior, posterior[:, :-1].argmax(1), [])


def _belief(rows: BeliefRows, best: Reading, *, mixes: bool, before: Tensor | None = None) -> _Found:
    """What follows from the best reading; rows that people answered are read as if nobody had."""
    checks, model = tested(rows, best), best.model
    answered = torch.zeros_like(rows.sure) if before is None else rows.sure & (before >= 0)
    given = rows.given if before is None else torch.where(answered, before, rows.given)
    known = rows.sure & ~answered
    said = Said.of(best.held, rows)._replace(given=given, sure=known)
    found = _Read.of(model.log_f(said.phi), model.posterior(said))
    if mixes and checks.passed:
        found = _mixed(rows, best, said, found)
    log_f, posterior, likeliest, weights = found
    posterior, right = _without_features(posterior, rows)
    posterior[known] = torch.nn.functional.one_hot(given[known], posterior.shape[1]).float()
    likeliest = torch.where(rows.sure, rows.given, likeliest)
    doubt = doubt_of(log_f)
    stated = doubted(posterior, given, doubt)
    chosen = (surely(stated, given, SHARE, doubt) & checks.passed).nonzero()[:, 0]
    blind = are_blind(log_f, given, posterior[:, :-1].argmax(1), chosen)
    checks = replace(checks, blind=blind, doubt=doubt)
    return _Found(Belief(given, stated, likeliest, checks, _answers(answered, rows.given)), weights, right)


def _answers(answered: Tensor, given: Tensor) -> dict[int, int]:
    """What people said that rows (N,) bool are."""
    places = answered.nonzero()[:, 0]
    return dict(zip(places.tolist(), given[places].tolist(), strict=True))


def _without_features(posterior: Tensor, rows: BeliefRows) -> tuple[Tensor, float]:
    """The posterior, with the usual share of right labels where a class has hardly any other row; and this share."""
    has, alone = rows.given >= 0, rows.is_alone(rows.given, rows.weight)
    others = has & ~alone
    if not bool(others.any()):
        return posterior, 1.0
    right = float(posterior[others].gather(1, rows.given[others, None]).mean())
    return with_usual(posterior, rows.given, alone, right), right


def _rows(features: Tensor, given: Tensor, sure: Tensor, classes: int) -> tuple[Directions, BeliefRows]:
    """The rows by plain or by scaled and clipped features, whichever makes left-out labels likelier."""
    maps = [Directions.of(features, clipped=False)]
    maps += [Directions.of(features, clipped=True)] if classes <= MANY_CLASSES else []
    found = [each(features) for each in maps]
    likely = [_likely(alone_rows(each, given, sure, classes)) for each in found] if len(maps) > 1 else [0.0]
    best = likely.index(max(likely))
    rows = grouped_rows if len(given) > FEWEST_COMPARED else alone_rows
    return maps[best], rows(found[best], given, sure, classes)


def _likely(rows: BeliefRows) -> float:
    """The mean log-likelihood of the labels of one fold, by prototypes and one rate."""
    asked = rows.held(0)[: max(_LIKELY_ROWS, CELLS // rows.classes)]
    phi = read(rows, rows.one_hot(), 0, asked)
    said = Said(phi, torch.zeros(len(asked)), rows.given[asked], rows.sure[asked], rows.weight[asked])
    return fitted(Model.first(len(phi), rows), Rung("rate"), said, steps=_LIKELY_STEPS).value


def _mixed(rows: BeliefRows, best: Reading, said: Said, found: _Read) -> _Read:
    """With a part of the second read-out, unless left-out labels reject it."""
    model, classes = best.model, rows.classes
    parts = (best.held if best.held.parts else held_out(rows, best.labels, whole=True)).parts
    targets = [model.posterior(Said.of(best.held, rows, part))[:, :classes] for part in parts]
    weights = linear_read_outs(rows, targets)
    second = read_linearly(rows.directions, rows.lengths, rows.fold, weights)
    mixed = ((1 - MIXED) * found.log_f.exp() + MIXED * second).clamp_min(1e-9).log()
    both, none = model.joint(mixed, said)
    free = rows.weight.masked_fill(rows.sure, 0.0)
    gain, error = mean_and_error(torch.logaddexp(both.logsumexp(1), none) - best.likelihood, free)
    if gain < -max(REJECTED_ERRORS * error, REJECTED_NATS):
        return found
    return _Read(mixed, *with_second(found.posterior, second), weights)
