"""Fit the posterior over true classes: leave-one-out read-outs, and Bayes' rule.

1. Whitened directions of the rows (``whitening``), two passes.
2. Prototypes of the given classes, and each row's similarity to them without itself (``prototypes``), one pass.
3. The map from similarities to probabilities f and the noise rate, by the likelihood of the given labels on a sample of
   rows that does not grow with the data (``likelihood``). The same for a ridge read-out (``ridge``); the one by which
   the given labels are likelier is used.
4. q_c ∝ f_c P(given | c); p_wrong = 1 − q_given; the suggestion is argmax q and is right with probability q.
5. A test for noise between particular classes (``structure``). Where it runs between few pairs, such as each class and
   the next, prototypes are computed anew from labels that undo it, and steps 3 and 4 use the rates of the pairs.
6. Sums of q over all rows are the estimates, with intervals (``noise``).

Legend: N rows of all ranks, B rows of a batch, D features, C classes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pencil.estimates.likelihood import START, Evidence, Map, fit_map, log_noise, read_out
from pencil.estimates.noise import Interval, NoiseEstimate, Tally, less_sure
from pencil.estimates.prototypes import Prototypes
from pencil.estimates.ridge import START as RIDGE_START
from pencil.estimates.ridge import Ridge, fit_ridge
from pencil.estimates.rows import DataRows, Sample, in_parts
from pencil.estimates.structure import MOST_CLASSES, Anchors, Round, anchors, chained, fit_structure
from pencil.estimates.whitening import Passes, Total, Whitening, fit_whitening, projected

USED = 0.65
"""The share of structure from which the rounds are used."""
_NOTHING = torch.zeros(0, 0)
UNKNOWN = NoiseEstimate(
    Interval(0.0, 0.0, 1.0), _NOTHING, _NOTHING, _NOTHING, _NOTHING, Interval(0.0, 0.0, 1.0)
)


@dataclass(frozen=True)
class Fitted:
    """The fitted posterior, equal on all ranks.

    Attributes:
        whitening: From features to directions.
        rounds: That undo noise between particular classes; empty if there is none.
        prototypes: Of the classes.
        ridge: The ridge read-out, if it explains the given labels better than the prototypes.
        map: From similarities to probabilities, and the noise rate.
        spread: (C, C) logarithm of how wrong labels fall on other classes; None for all alike.
        cautious: Whether suggestions count as less sure, because an alarm was raised.
        noise: The estimated noise.
    """

    whitening: Whitening
    rounds: tuple[Round, ...]
    prototypes: Prototypes
    ridge: Ridge | None
    map: Map
    spread: Tensor | None
    cautious: bool
    noise: NoiseEstimate

    def posterior(self, features: Tensor, given: Tensor) -> Tensor:
        """The probability (B, C) that each class is the true one of rows that were fitted, float32."""
        classes = len(self.prototypes.prior)
        parts = [
            self._posterior(some, labels)
            for some, labels in zip(in_parts(features, classes), in_parts(given, classes), strict=True)
        ]
        return torch.cat(parts) if parts else torch.zeros(0, classes)

    def _posterior(self, features: Tensor, given: Tensor) -> Tensor:
        classes = len(self.prototypes.prior)
        read = read_out(*self._similarities(features, given), torch.tensor(self.map.weights))
        noise = log_noise(given, classes, torch.tensor(self.map.rate), self.spread)
        found = (read + noise).softmax(1)
        return less_sure(found, given) if self.cautious else found

    def _similarities(self, features: Tensor, given: Tensor) -> tuple[Tensor, Tensor]:
        """Similarities (B, C) and the prior (C,) that belongs to them."""
        prior = self.prototypes.prior
        if self.ridge is not None:
            plain = projected(features, self.whitening.projection)
            return self.ridge.similarities(plain, given), torch.zeros_like(prior)
        directions = self.whitening(features)
        own = chained(self.rounds, directions, given, len(prior))
        return self.prototypes.similarities(directions, own), prior


def fit(
    passes: Passes,
    given: Tensor,
    num_classes: int,
    *,
    trusted: Tensor | None = None,
    total: Total = lambda values: values,
) -> Fitted:
    """Fit on all rows.

    Args:
        passes: Makes one pass over this rank's rows. Four passes are made; if noise between particular classes is
            found and not all rows fit into the sample, six more.
        given: (N,) their given classes.
        num_classes: C.
        trusted: (N,) bool, rows whose given label was verified.
        total: The sum of a tensor over all ranks.
    """
    sure = torch.zeros(len(given), dtype=torch.bool) if trusted is None else trusted
    whitening, covariance, rows = fit_whitening(passes, total)
    data = DataRows(passes, given, sure, num_classes, whitening, rows, total)
    prototypes, sums, sample = data.first_pass()
    evidence = sample.evidence(prototypes, ())
    test, found, doubtful = fit_tested(evidence, total, rows)
    plain = Fitted(whitening, (), prototypes, None, found, None, test.structured or doubtful, UNKNOWN)
    fitted = None
    if test.structured and num_classes <= MOST_CLASSES:
        fitted = _undone(plain, data, sample)
    if fitted is None:
        fitted = _likelier(plain, data, sample, covariance * rows, sums)
    return replace(fitted, noise=_noise(data, fitted, test))


def fit_tested(
    evidence: Evidence, total: Total, rows: float | None = None, start: tuple[float, float, float] = START
) -> tuple[Anchors, Map, bool]:
    """The test for structure, the fitted map, and whether its rate was too low and is the test's floor instead."""
    test = anchors(evidence.similarities, evidence.given, total)
    found = fit_map(evidence, total, rows, start)
    if not test.exceeds(found.rate):
        return test, found, False
    return test, replace(found, rate=test.floor), True


def _likelier(plain: Fitted, data: DataRows, sample: Sample, gram: Tensor, sums: Tensor) -> Fitted:
    """The fit with the ridge read-out if the given labels are more likely by it, else the fit with prototypes."""
    counts = data.total(data.given.bincount(minlength=data.classes).double())
    held = (sample.features, sample.given)
    ridge = fit_ridge(plain.whitening.mean, gram, sums, counts, held, data.total)
    similar = ridge.similarities(*held)
    prior = torch.zeros_like(plain.prototypes.prior)
    evidence = Evidence(similar, sample.given, sample.trusted, prior)
    found = fit_map(evidence, data.total, data.rows, RIDGE_START)
    return replace(plain, ridge=ridge, map=found) if found.likelihood > plain.map.likelihood else plain


def _undone(plain: Fitted, data: DataRows, sample: Sample) -> Fitted | None:
    """The fit with the noise between particular classes undone; None if most of the noise has no such structure."""
    found = fit_structure(
        plain.prototypes,
        sample.directions,
        sample.given,
        lambda rounds, own: data.prototypes(rounds, sample, own),
        data.shares(plain.prototypes),
        data.total,
    )
    if found.share < USED:
        return None
    evidence = sample.evidence(found.prototypes, found.rounds, found.spread)
    fitted = fit_map(evidence, data.total, data.rows)
    return replace(plain, rounds=found.rounds, prototypes=found.prototypes, map=fitted, spread=found.spread)


def _noise(data: DataRows, fitted: Fitted, test: Anchors) -> NoiseEstimate:
    """The estimates from the posteriors of all rows."""
    tally = Tally(data.classes)
    for places, features in data.passes():
        for part, some in zip(in_parts(places, data.classes), in_parts(features, data.classes), strict=True):
            tally.add(fitted.posterior(some, data.given[part]), data.given[part], data.trusted[part])
    return tally.noise(fitted.map, test, data.total, alarm=fitted.cautious)
