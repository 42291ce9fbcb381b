"""The posterior from a trained network's predictions, calibrated on rows that were held out.

A network that has learned the given labels agrees with them more often than it would without, and so do its features.
Held-out rows show by how much: their labels are as noisy, and the network has not learned from them. With f the
network's probabilities,

1. On held-out rows, the power b of f and the noise rate π that make the given labels most likely (``likelihood``). A
   whole matrix P(g | c) and factors e^(a_c) of the classes (``matrix``) replace π if they explain left-out labels
   better (``left_out``): by one standard error if ``structure`` has raised an alarm, otherwise by three.
2. On training rows, the given class loses δ from b log f. With this δ, p_wrong has the same mean as on held-out rows.
3. q_c ∝ f_c^b e^(a_c − δ [c = g]) P(g | c). 4 % of the probability of other classes than g is spread evenly over them,
   15 % if π is uncertain or after an alarm. The estimates are sums of q over the training rows, but the
   matrix is the fitted one.

Legend: M held-out rows of this rank, N training rows of this rank, B rows of a batch, C classes, g the given class.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pencil.errors import DataError
from pencil.estimates.left_out import Confirmed, compared, confirmed_matrix
from pencil.estimates.likelihood import Evidence, Map, fit_map
from pencil.estimates.matrix import matrix_of
from pencil.estimates.noise import SURE, WIDTH, Interval, NoiseEstimate, Tally, less_sure
from pencil.estimates.rows import in_parts, is_sampled, stride_of
from pencil.estimates.structure import Anchors, anchors
from pencil.estimates.whitening import Passes, Total

WIDEST = 28.0
"""Similarities are at most 1 apart, as the test for structure expects: z = log f / 28, with f at least 1e-12."""
START = (WIDEST, 0.0, -1.0)
LOWEST = math.log(1e-12)
"""Of log f: a probability of 0 excludes nothing."""
NETWORK = 0.96
"""A network is too sure of its surest answers: with 10 % errors allowed, 12 % of the replaced labels were wrong."""
UNSURE = 0.02
"""A larger standard error of π leaves open how right the network is: then as much is spread as after an alarm."""
PROOF, PROOF_AFTER_ALARM = 3.0, 1.0
"""Standard errors by which a matrix must explain left-out labels better than one rate."""
MOST, STEPS = 40.0, 50  # of δ, and of its bisection
MEMORISED = 3.0
"""From this δ on, the network has made given labels 20 times as likely by learning them: it has memorised them."""
_NOTHING = torch.zeros(0, 0)
_UNKNOWN = NoiseEstimate(
    Interval(0.0, 0.0, 1.0), _NOTHING, _NOTHING, _NOTHING, _NOTHING, Interval(0.0, 0.0, 1.0)
)


@dataclass(frozen=True)
class Calibrated:
    """The fitted posterior, equal on all ranks.

    Attributes:
        map: 28 b, and the noise rate.
        prior: (C,) a.
        likely: (C, C) log P(given | c), c in rows.
        lean: δ, how far the network leans towards the given label of a row because it has learned it.
        sure: The share of the probability of other classes than the given one that is not spread over them.
        pairs: The matrix with the bounds of its entries, if it is used.
        noise: The estimated noise of the training rows.
    """

    map: Map
    prior: Tensor
    likely: Tensor
    lean: float
    sure: float
    pairs: Confirmed | None
    noise: NoiseEstimate

    @property
    def has_memorised(self) -> bool:
        """Whether the network has memorised its given labels, and says little else about training rows."""
        return self.lean > MEMORISED

    def posterior(self, scores: Tensor, given: Tensor) -> Tensor:
        """The probability (B, C) that each class is the true one of training rows with log f (B, C), float32."""
        classes = scores.shape[1]
        parts = [
            self._posterior(some, labels)
            for some, labels in zip(in_parts(scores, classes), in_parts(given, classes), strict=True)
        ]
        return torch.cat(parts) if parts else torch.zeros(0, classes)

    def _posterior(self, scores: Tensor, given: Tensor) -> Tensor:
        read = (self.map.weights[0] / WIDEST * _finite(scores) + self.prior).log_softmax(1)
        read = read.scatter_add(1, given[:, None], torch.full((len(given), 1), -self.lean))
        return less_sure((read + self.likely[:, given].T).softmax(1), given, self.sure)


def fit_held_out(
    passes: Passes,
    given: Tensor,
    held_out: tuple[Tensor, Tensor],
    *,
    trusted: Tensor | None = None,
    total: Total = lambda values: values,
) -> Calibrated:
    """Fit on held-out rows, then on training rows.

    Args:
        passes: Makes one pass over log f (B, C) of this rank's training rows. Two passes are made.
        given: (N,) their given classes.
        held_out: log f (M, C) and given classes (M,) of this rank's held-out rows.
        trusted: (N,) bool, training rows whose given label was verified.
        total: The sum of a tensor over all ranks.
    """
    known = torch.zeros(len(given), dtype=torch.bool) if trusted is None else trusted
    classes = held_out[0].shape[1]
    evidence, test, found, alarm = _fit(*held_out, total)
    plain = _calibrated(evidence, found, total, alarm=alarm)
    mean = _mean_wrong(plain, *held_out, total)
    fitted = replace(plain, lean=_lean(plain, mean, *_sample(passes, given, known, total), total))
    tally = Tally(classes)
    for places, some in passes():
        for part, rows in zip(in_parts(places, classes), in_parts(some, classes), strict=True):
            tally.add(fitted.posterior(rows, given[part]), given[part], known[part])
    noise = replace(tally.noise(fitted.map, test, total, alarm=alarm), surest=_surest(fitted.sure))
    return replace(fitted, noise=noise if fitted.pairs is None else _with_pairs(noise, fitted.pairs))


def left_out_likelihood(
    scores: Tensor, given: Tensor, *, total: Total = lambda values: values
) -> tuple[bool, float] | None:
    """Whether ``fit_held_out`` uses a matrix, and the mean log-likelihood of left-out labels.

    The second is that by the matrix or by one rate, whichever is larger. It tells how well a network knows the true
    classes of rows it has not learned from, and is comparable between networks. None if there are few rows.

    Args:
        scores: log f (M, C) of this rank's held-out rows.
        given: (M,) their given classes.
        total: The sum of a tensor over all ranks.
    """
    evidence, _, plain, alarm = _fit(scores, given, total)
    found = compared(evidence, plain, total)
    return None if found is None else (found.gain > _proof(alarm=alarm) * found.error, found.likelihood)


def _fit(scores: Tensor, given: Tensor, total: Total) -> tuple[Evidence, Anchors, Map, bool]:
    """The held-out rows, the test for structure, one rate for all classes, and whether there is an alarm."""
    if not float(total(torch.tensor([float(len(given))]).double())[0]):
        raise DataError("held_out: there are no rows; hold some out of the training data")
    evidence = Evidence(_finite(scores) / WIDEST, given, torch.zeros(scores.shape[1]))
    test = anchors(evidence.similarities, evidence.given, total)
    found = fit_map(evidence, total, start=START)
    if not test.exceeds(found.rate):
        return evidence, test, found, test.structured
    return evidence, test, replace(found, rate=test.floor), True


def _finite(scores: Tensor) -> Tensor:
    """Log f in float32, also where f is 0."""
    return scores.float().clamp_min(LOWEST)


def _proof(*, alarm: bool) -> float:
    return PROOF_AFTER_ALARM if alarm else PROOF


def _calibrated(evidence: Evidence, found: Map, total: Total, *, alarm: bool) -> Calibrated:
    """Before training rows are seen: one rate for all classes, or the matrix if left-out labels confirm it."""
    confirmed = confirmed_matrix(evidence, found, total, errors=_proof(alarm=alarm))
    if confirmed is None:
        classes = len(evidence.prior)
        likely = matrix_of(torch.tensor(found.rate), None, classes).log()
        return Calibrated(found, torch.zeros(classes), likely, 0.0, _sure(found, alarm=alarm), None, _UNKNOWN)
    read = _by_matrix(confirmed, found)
    prior, likely = confirmed.matrix.prior, confirmed.matrix.matrix.log()
    return Calibrated(read, prior, likely, 0.0, _sure(read, alarm=alarm), confirmed, _UNKNOWN)


def _by_matrix(confirmed: Confirmed, plain: Map) -> Map:
    """The noise rate by the matrix instead of one rate for all classes."""
    rate, error = confirmed.rate, confirmed.error
    low, high = max(rate - WIDTH * error, 0.0), min(rate + WIDTH * error, 1.0)
    weights = (confirmed.matrix.sharpness, plain.weights[1])
    return replace(plain, weights=weights, rate=rate, error=error, low=low, high=high)


def _with_pairs(noise: NoiseEstimate, pairs: Confirmed) -> NoiseEstimate:
    """The matrix as it was fitted, and classes with its standard errors.

    Sums of q have the matrix blurred by what is spread over other classes.
    """
    value, low, high = noise.per_class.unbind(1)
    further = WIDTH * pairs.class_error.float()
    low, high = value - torch.hypot(value - low, further), value + torch.hypot(high - value, further)
    per_class = torch.stack([value, low.clamp_min(0), high.clamp_max(1)], 1)
    matrix = pairs.matrix.matrix
    return replace(noise, per_class=per_class, matrix=matrix, matrix_low=pairs.low, matrix_high=pairs.high)


def _sure(found: Map, *, alarm: bool) -> float:
    return NETWORK if found.error <= UNSURE and not alarm else SURE


def _surest(sure: float) -> float:
    """What the surest suggestion counts as: spreading alone does not lower it if there are few classes."""
    return SURE if sure == SURE else 1.0


def _sample(passes: Passes, given: Tensor, trusted: Tensor, total: Total) -> tuple[Tensor, Tensor]:
    """Log f and given classes of some training rows whose labels were not verified."""
    stride, held = stride_of(len(given), total), []
    for places, some in passes():
        chosen = is_sampled(places, stride) & ~trusted[places]
        held.append((some[chosen], given[places[chosen]]))
    if not held:  # a rank without rows
        return torch.zeros(0, 1), given[:0]
    scores, labels = (torch.cat(each) for each in zip(*held, strict=True))
    return scores, labels


def _lean(plain: Calibrated, mean: float, scores: Tensor, given: Tensor, total: Total) -> float:
    """δ by bisection: p_wrong rises with it."""
    low, high = -MOST, MOST
    for _ in range(STEPS):
        middle = (low + high) / 2
        below = _mean_wrong(replace(plain, lean=middle), scores, given, total) < mean
        low, high = (middle, high) if below else (low, middle)
    return (low + high) / 2


def _mean_wrong(fitted: Calibrated, scores: Tensor, given: Tensor, total: Total) -> float:
    """The mean of p_wrong over the rows of all ranks."""
    right = fitted.posterior(scores, given).gather(1, given[:, None]) if len(given) else torch.zeros(0)
    sums = total(torch.tensor([float((1 - right).sum()), len(given)], dtype=torch.float64))
    return float(sums[0] / sums[1].clamp_min(1))
