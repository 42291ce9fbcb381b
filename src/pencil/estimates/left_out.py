"""Whether a noise rate for every pair of classes explains labels that it was not fitted to.

The whole matrix has C (C − 1) numbers and always explains the labels it was fitted to better than one rate for all. So
the rows are divided into ten parts. One rate and the matrix are both fitted to nine parts, and compared by the
likelihood of the given labels of the tenth, in turn. The matrix is used if it is better by some standard errors. The
standard error of its noise rate is the jackknife's, from how far the rates of the ten fits differ.

A row's part comes from its content, so that it is the same on any number of ranks.

Legend: M rows, C classes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from pencil.estimates.likelihood import Evidence, Map, fit_map
from pencil.estimates.matrix import PSEUDO, WholeMatrix, matrix_of, whole_matrix
from pencil.estimates.noise import WIDTH, bounds
from pencil.estimates.rows import SAMPLED, content, is_sampled, mean_and_error, stride_of
from pencil.estimates.whitening import Total

PARTS = 10
START = 0.2
"""The noise rate of the matrix to start from; EM does not leave a rate of 0."""
_DIGITS = 1e4  # of a similarity that take part in its content: the last ones depend on how rows were batched


class Comparison(NamedTuple):
    """How likely left-out labels are, as means of the logarithm over rows of all ranks.

    Attributes:
        gain: By the matrix, above that by one rate.
        error: The standard error of the gain.
        likelihood: By the better of both.
        rate_error: () the standard error of the noise rate by the matrix.
        class_error: (C,) those of the noise rates of the rows given each class.
        matrix_error: (C, C) those of the matrix's entries.
    """

    gain: float
    error: float
    likelihood: float
    rate_error: Tensor
    class_error: Tensor
    matrix_error: Tensor


class Confirmed(NamedTuple):
    """A matrix that left-out labels confirm.

    Attributes:
        matrix: The matrix.
        rate: The share of wrong labels by it.
        error: The standard error of this share.
        class_error: (C,) those of the shares of the rows given each class.
        low: (C, C) lower bounds of the entries.
        high: (C, C) upper bounds.
    """

    matrix: WholeMatrix
    rate: float
    error: float
    class_error: Tensor
    low: Tensor
    high: Tensor


def compared(evidence: Evidence, plain: Map, total: Total) -> Comparison | None:
    """Compare the matrix with one rate; None if there are few rows. See ``confirmed_matrix``."""
    rows, classes = _some(evidence, total), len(evidence.prior)
    if float(total(torch.tensor([float(len(evidence.given))]).double())[0]) < PSEUDO * classes:
        return None
    parts = part_of(rows.similarities)
    found = torch.zeros(2, len(rows.given), dtype=torch.float64)
    rates, matrices = [], []
    for part in range(PARTS):
        here, others = _rows(rows, parts == part), _rows(rows, parts != part)
        one = fit_map(others, total, start=_start(plain))
        alike = WholeMatrix(_uniform(one, classes), torch.zeros(classes), one.weights[0])
        fits = (_fitted(others, one, total), alike)
        found[:, parts == part] = torch.stack([_likelihoods(each, here) for each in fits])
        rates.append(_rates(fits[0], others, total))
        matrices.append(fits[0].matrix.double())
    gain = mean_and_error(found[0] - found[1], total)
    likelihood = max(mean_and_error(each, total)[0] for each in found)
    errors = _jackknife(rates)
    return Comparison(*gain, likelihood, errors[0], errors[1:], _jackknife(matrices))


def confirmed_matrix(evidence: Evidence, plain: Map, total: Total, errors: float) -> Confirmed | None:
    """The matrix fitted to all rows; None if left-out labels do not confirm it, or if there are few rows.

    Args:
        evidence: Rows of this rank.
        plain: One rate for all classes, fitted to them.
        total: The sum over ranks.
        errors: How many standard errors the matrix must be better.
    """
    found = compared(evidence, plain, total)
    if found is None or found.gain <= errors * found.error:
        return None
    rows = _some(evidence, total)
    matrix = _fitted(rows, plain, total)
    counts = total(_posterior(matrix, rows).sum(0).double())[:, None]
    low, high = _bounds(matrix.matrix.double(), counts, found.matrix_error)
    rate, error = float(_rates(matrix, rows, total)[0]), float(found.rate_error)
    return Confirmed(matrix, rate, error, found.class_error, low.float(), high.float())


def part_of(similarities: Tensor) -> Tensor:
    """(M,) the part of each row with similarities (M, C)."""
    return content((similarities.double() * _DIGITS).round().long()) % PARTS


def _fitted(rows: Evidence, plain: Map, total: Total) -> WholeMatrix:
    start = matrix_of(torch.tensor(START), None, len(rows.prior))
    return whole_matrix(start, plain.weights[0], rows.similarities, rows.given, total, believed=None)


def _uniform(plain: Map, classes: int) -> Tensor:
    return matrix_of(torch.tensor(plain.rate), None, classes)


def _start(plain: Map) -> tuple[float, float, float]:
    return (*plain.weights, float(torch.tensor(plain.rate).logit()))


def _likelihoods(found: WholeMatrix, rows: Evidence) -> Tensor:
    """The log-likelihood (M,) of each given label."""
    return _joint(found, rows).logsumexp(1).double()


def _jackknife(fits: list[Tensor]) -> Tensor:
    """The standard error of an estimate, from fits that leave out one part each."""
    return (torch.stack(fits).var(0, correction=0) * (PARTS - 1)).sqrt()


def _bounds(share: Tensor, rows: Tensor, error: Tensor) -> tuple[Tensor, Tensor]:
    """95 % intervals of shares (C, C) of about ``rows`` (C, 1) rows each, with a further standard error (C, C).

    Upwards the part of the rows is Wilson's. Downwards it is the normal one, which reaches 0 for fewer than four rows:
    EM never estimates 0.
    """
    up = bounds(share, rows)[1] - share
    down = WIDTH * (share * (1 - share) / rows).sqrt()
    low, high = (torch.hypot(part, WIDTH * error) for part in (down, up))
    return (share - low).clamp_min(0), (share + high).clamp_max(1)


def _rates(found: WholeMatrix, rows: Evidence, total: Total) -> Tensor:
    """The share (1 + C,) of wrong labels among the rows of all ranks, and among those given each class."""
    wrong = 1 - _posterior(found, rows).gather(1, rows.given[:, None])[:, 0].double()
    sums = torch.zeros(len(rows.prior), 2, dtype=torch.float64)
    sums = total(sums.index_add_(0, rows.given, torch.stack([wrong, torch.ones_like(wrong)], 1)))
    wrong, count = torch.cat([sums.sum(0, keepdim=True), sums]).unbind(1)
    return wrong / count.clamp_min(1)


def _posterior(found: WholeMatrix, rows: Evidence) -> Tensor:
    return _joint(found, rows).softmax(1)


def _joint(found: WholeMatrix, rows: Evidence) -> Tensor:
    """Log P(c, given) (M, C)."""
    read = (found.sharpness * rows.similarities + found.prior).log_softmax(1)
    return read + found.matrix.log()[:, rows.given].T


def _some(evidence: Evidence, total: Total) -> Evidence:
    """All rows; with very many, some of them, but enough for every class."""
    stride = stride_of(len(evidence.given), total, most=max(SAMPLED, int(PSEUDO * len(evidence.prior))))
    return _rows(evidence, is_sampled(torch.arange(len(evidence.given)), stride))


def _rows(evidence: Evidence, chosen: Tensor) -> Evidence:
    return replace(
        evidence,
        similarities=evidence.similarities[chosen],
        given=evidence.given[chosen],
    )
