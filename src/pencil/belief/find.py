"""Find the belief about every label: P(t | all that was said about the row) ∝ f_t(x) · Π P(opinion | t, who said it).

1. Directions, groups of copies, folds and neighbours of the rows (``rows``).
2. Read-outs of each row without itself (``readout``), and noise as rich as left-out labels allow (``model``,
   ``fitting``), in rounds of better labels (``rounds``).
3. A second read-out, of which a part is mixed in unless left-out labels reject it (``head``).
4. Tests of whether labels may be replaced at all (``claims``).

Legend: N rows, D features, C classes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pencil.belief.belief import Belief
from pencil.belief.claims import doubt_of, tested
from pencil.belief.fitting import CELLS, FULL_CLASSES, Rung, climbed, fitted
from pencil.belief.head import MIXED, linear_read_out
from pencil.belief.model import VERIFIED, Model, Said, mean_and_error
from pencil.belief.readout import held_out, probabilities_held_out, read
from pencil.belief.rounds import Reading, rounds_of
from pencil.belief.rows import MANY_CLASSES, BeliefRows, alone_rows, directions, grouped_rows

REJECTED_ERRORS, REJECTED_NATS = 2.0, 0.002
"""A part of the second read-out is rejected if left-out labels are less likely with it by so many errors and nats."""
_LIKELY_STEPS, _LIKELY_ROWS = 30, 300


def believe(features: Tensor, given: Tensor, classes: int, sure: Tensor | None = None) -> Belief:
    """Find the belief about all rows from their features.

    Args:
        features: (N, D).
        given: (N,) given classes; −1 for a row without a label.
        classes: C.
        sure: (N,) bool, rows whose given class was verified.
    """
    verified = torch.zeros(len(given), dtype=torch.bool) if sure is None else sure
    rows = _rows(features, given, verified, classes)
    return _belief(rows, rounds_of(rows), mixes=2 < classes <= FULL_CLASSES)


def believe_probabilities(probabilities: Tensor, given: Tensor, sure: Tensor | None = None) -> Belief:
    """Find the belief from a model's probabilities (N, C) of rows that it did not learn from."""
    verified = torch.zeros(len(given), dtype=torch.bool) if sure is None else sure
    nothing = torch.zeros(len(given), 1)
    rows = alone_rows((nothing, nothing + 1), given, verified, probabilities.shape[1])
    held = probabilities_held_out(probabilities)
    model = climbed(Said.of(held, rows), rows.half, Model.first(len(held.phi), rows), gated=True)
    return _belief(rows, Reading.of(model, held, [], rows), mixes=False)


def _belief(rows: BeliefRows, best: Reading, *, mixes: bool) -> Belief:
    tests, said, model = tested(rows, best), Said.of(best.held, rows), best.model
    log_f, posterior = model.log_f(said.phi), model.posterior(said)
    likeliest = posterior[:, :-1].argmax(1)
    if mixes and tests.passed:
        log_f, posterior, likeliest = _mixed(rows, best, log_f, posterior)
    posterior[rows.sure] = _verified(rows.given[rows.sure], posterior.shape[1])
    likeliest = torch.where(rows.sure, rows.given, likeliest)
    return Belief(rows.given, posterior, log_f, likeliest, tests, doubt_of(log_f), _alone(rows))


def _verified(given: Tensor, columns: int) -> Tensor:
    """What verified labels (M,) say, whatever the features do."""
    found = torch.full((len(given), columns), (1 - VERIFIED) / (columns - 2))
    found[:, -1] = 0.0
    return found.scatter(1, given[:, None], VERIFIED)


def _alone(rows: BeliefRows) -> Tensor:
    """(N,) bool, rows with hardly any other of their class, which nothing can contradict."""
    has = rows.given >= 0
    counts = torch.bincount(rows.given[has], rows.weight[has].double(), rows.classes)
    return has & (counts[rows.given.clamp_min(0)] - rows.weight < 1.5)


def _rows(features: Tensor, given: Tensor, sure: Tensor, classes: int) -> BeliefRows:
    """The rows by plain or by scaled and clipped features, whichever makes left-out labels likelier."""
    found = directions(features, clipped=False)
    if classes <= MANY_CLASSES:
        both = (found, directions(features, clipped=True))
        found = max(both, key=lambda each: _likely(alone_rows(each, given, sure, classes)))
    return grouped_rows(found, given, sure, classes)


def _likely(rows: BeliefRows) -> float:
    """The mean log-likelihood of the labels of one fold, by prototypes and one rate."""
    asked = rows.held(0)[: max(_LIKELY_ROWS, CELLS // rows.classes)]
    phi = read(rows, rows.one_hot(), 0, asked)
    said = Said(phi, torch.zeros(len(asked)), rows.given[asked], rows.sure[asked], rows.weight[asked])
    return fitted(Model.first(len(phi), rows), Rung("rate"), said, steps=_LIKELY_STEPS).value


def _mixed(
    rows: BeliefRows, best: Reading, log_f: Tensor, posterior: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """With a part of the second read-out: log f (N, C), the posterior (N, C + 1), the likeliest class (N,)."""
    said, model, classes = Said.of(best.held, rows), best.model, rows.classes
    parts = (best.held if best.held.parts else held_out(rows, best.labels, whole=True)).parts
    second = linear_read_out(rows, [model.posterior(said._replace(phi=part))[:, :classes] for part in parts])
    mixed = ((1 - MIXED) * log_f.exp() + MIXED * second).clamp_min(1e-9).log()
    both, none = model.joint(mixed, said)
    gain, error = mean_and_error(torch.logaddexp(both.logsumexp(1), none) - best.likelihood, rows.weight)
    if gain < -max(REJECTED_ERRORS * error, REJECTED_NATS):
        return log_f, posterior, posterior[:, :-1].argmax(1)
    second = torch.cat([second * (1 - posterior[:, classes:]), posterior[:, classes:]], 1)
    likeliest = (posterior + second)[:, :classes].argmax(1)
    total = (1 - MIXED) * posterior + MIXED * second
    return mixed, total / total.sum(1, keepdim=True), likeliest
