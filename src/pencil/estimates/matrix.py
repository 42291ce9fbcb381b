"""The whole noise matrix, where there are rows enough to count it.

The rounds of ``structure`` have one noise rate for all classes and keep the classes' given shares. Noise need not: of
CIFAR-10's usual map, five classes lose two fifths of their labels to others and five lose none. With 20 rows and more
for each entry of the matrix, all of it can be estimated. With f_c ∝ π_c e^(b z_c) the probability of class c from the
features and T_cg = P(given g | true c), the likelihood Σ log Σ_c f_c T_cg is maximised by EM:

    q_c  ∝ f_c T_cg                                              for each row
    T_cg ∝ Σ q_c [given = g] + 20 R_cg                           R, the matrix of ``structure``, counts as 20 rows
    π_c  ← π_c Σ q_c / Σ f_c
    b    by a Newton step

y = q is what the round gives its rows. Whether the matrix is used is decided by labels that were left out (``start``).

Legend: M rows of the sample, C classes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pencil.estimates.likelihood import log_noise
from pencil.estimates.structure import Round
from pencil.estimates.whitening import Total

ENOUGH = 20
"""Rows of the sample for each entry of the matrix."""
PSEUDO = 20.0
"""Rows of each class that the matrix of ``structure`` counts as."""
STEPS, CLOSE = 50, 1e-4
_LEAST = 1e-9


def with_whole_matrix(plain: Round, similarities: Tensor, given: Tensor, total: Total) -> Round:
    """Return the round with its noise estimated for every pair of classes.

    Args:
        plain: The same round by ``structure``.
        similarities: (M, C) z of the sample.
        given: (M,) its given classes.
        total: The sum over ranks.
    """
    classes = similarities.shape[1]
    believed = matrix_of(plain.rate, plain.spread, classes)
    found = whole_matrix(believed, plain.sharpness, similarities, given, total, believed=believed)
    rate = (1 - found.matrix.diagonal()).clamp(_LEAST, 1 - _LEAST)
    spread = (found.matrix / rate[:, None]).clamp_min(_LEAST).log()
    return replace(
        plain,
        sharpness=found.sharpness,
        rate=rate,
        spread=spread,
        prior=found.prior,
        tilt=torch.zeros(classes),
    )


@dataclass(frozen=True)
class WholeMatrix:
    """The most likely noise and read-out.

    Attributes:
        matrix: (C, C) T.
        prior: (C,) log π.
        sharpness: b.
    """

    matrix: Tensor
    prior: Tensor
    sharpness: float


def whole_matrix(
    start: Tensor,
    sharpness: float,
    similarities: Tensor,
    given: Tensor,
    total: Total,
    *,
    believed: Tensor | None,
) -> WholeMatrix:
    """Maximise the likelihood of the given classes.

    Args:
        start: (C, C) a matrix to start from.
        sharpness: b to start from.
        similarities: (M, C) z.
        given: (M,) the given classes.
        total: The sum over ranks.
        believed: (C, C) R; None for wrong labels that fall on all classes alike, as often as by the matrix itself.
    """
    prior = torch.zeros(similarities.shape[1])
    matrix, sharp = start, sharpness
    for _ in range(STEPS):
        before, read = matrix, (sharp * similarities + prior).log_softmax(1)
        joint = (read + matrix.log()[:, given].T).softmax(1)
        counts, shares, step = _sums(joint, read.exp(), similarities, given, total)
        matrix = counts + PSEUDO * (_alike(counts) if believed is None else believed)
        matrix = matrix.clamp_min(_LEAST)
        matrix = matrix / matrix.sum(1, keepdim=True)
        prior = (prior + shares).clamp(-30, 30)
        sharp = min(max(sharp + min(max(step, -sharp / 2), sharp), 0.5), 200.0)
        if float((matrix - before).abs().max()) < CLOSE:
            break
    return WholeMatrix(matrix, prior, sharp)


def _alike(counts: Tensor) -> Tensor:
    """P(given | c) (C, C) of noise that is alike for all classes, with the rate of counts (C, C)."""
    rate = 1 - counts.diagonal().sum() / counts.sum().clamp_min(_LEAST)
    return matrix_of(rate.clamp(_LEAST, 1 - _LEAST), None, len(counts))


def matrix_of(rate: Tensor, spread: Tensor | None, classes: int) -> Tensor:
    """P(given | c) (C, C), c in rows, of a noise rate and how wrong labels fall on the other classes."""
    return log_noise(torch.arange(classes), classes, rate, spread).exp().T


def _sums(
    joint: Tensor, read: Tensor, similarities: Tensor, given: Tensor, total: Total
) -> tuple[Tensor, Tensor, float]:
    """Return Σ q_c [given = g] (C, C), log of Σ q_c / Σ f_c (C,), and the Newton step of b, over all ranks."""
    classes = joint.shape[1]
    counts = torch.zeros(classes, classes).index_add_(1, given, joint.T)
    means = [(chances * similarities).sum(1) for chances in (joint, read)]
    squares = [(chances * similarities.square()).sum(1) for chances in (joint, read)]
    slopes = [
        (means[0] - means[1]).sum(),
        *((s - m.square()).sum() for s, m in zip(squares, means, strict=True)),
    ]
    flat = torch.cat([counts.flatten(), read.sum(0), torch.stack(slopes)]).double()
    sums = total(flat).float()
    counts, read_sums = sums[: classes**2].reshape(classes, classes), sums[classes**2 : -3]
    gradient, of_joint, of_read = sums[-3:].tolist()
    shares = counts.sum(1).clamp_min(_LEAST).log() - read_sums.clamp_min(_LEAST).log()
    return counts, shares, gradient / max(of_read - of_joint, 1e-3)
