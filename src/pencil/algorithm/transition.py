"""Transition matrices: T[i, j] is the probability that an example of class i is labelled j.

This module makes and checks them. Noise is drawn by them (``data.noise``), forward correction trains through them
(``methods.forward``), and settings may hold one (``data.noise.matrix``, ``method.transition``).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pencil.errors import ConfigError

CIFAR10_CLASSES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
CIFAR10_CONFUSIONS = (
    *(("truck", "automobile"), ("bird", "airplane"), ("deer", "horse")),
    *(("cat", "dog"), ("dog", "cat")),
)
ROW_TOLERANCE = 1e-4  # a matrix typed with four digits misses a sum of 1 by less
Matrix = tuple[tuple[float, ...], ...]
"""A transition matrix in settings."""


def symmetric_matrix(num_classes: int, rate: float) -> Tensor:
    """T (C, C) of symmetric noise as the paper has it (Sec. 4.1): (1 - r) I + r / C.

    With probability r the label is drawn from all C classes, the true one among them, so that only
    r (C - 1) / C of the labels come out wrong.
    """
    check_rate(num_classes, rate)
    noise = torch.full((num_classes, num_classes), rate / num_classes, dtype=torch.float64)
    return noise + (1 - rate) * torch.eye(num_classes, dtype=torch.float64)


def circular_matrix(num_classes: int, rate: float) -> Tensor:
    """T (C, C) of the paper's asymmetric CIFAR-100 noise: each class becomes the next with probability r."""
    check_rate(num_classes, rate)
    identity = torch.eye(num_classes, dtype=torch.float64)
    return (1 - rate) * identity + rate * identity.roll(1, dims=1)


def cifar10_matrix(rate: float) -> Tensor:
    """T (10, 10) of the paper's asymmetric CIFAR-10 noise, each confusion with probability r.

    Truck becomes automobile, bird airplane, deer horse, and cat and dog each other. The other five classes keep
    their labels.
    """
    check_rate(len(CIFAR10_CLASSES), rate)
    matrix = torch.eye(len(CIFAR10_CLASSES), dtype=torch.float64)
    for true, seen in CIFAR10_CONFUSIONS:
        row, column = CIFAR10_CLASSES.index(true), CIFAR10_CLASSES.index(seen)
        matrix[row, row], matrix[row, column] = 1 - rate, rate
    return matrix


def counted_matrix(true: Tensor, given: Tensor, num_classes: int) -> Tensor:
    """T (C, C) as labels came out: how often class i of the true ones (N,) is j in the given ones (N,).

    A class without examples keeps its label.
    """
    identity = torch.eye(num_classes, dtype=torch.float64)
    counts = identity[true].T @ identity[given]
    total = counts.sum(dim=1, keepdim=True)
    return torch.where(total > 0, counts / total.clamp_min(1), identity)


def as_settings(matrix: Tensor) -> Matrix:
    """A matrix as settings hold it."""
    return tuple(map(tuple, matrix.tolist()))


def wrong_row(matrix: Tensor | Sequence[Sequence[float]]) -> int | None:
    """The first of C rows that is not C probabilities with the sum 1; None for a transition matrix."""
    uneven = (number for number, row in enumerate(matrix) if len(row) != len(matrix))
    if (number := next(uneven, None)) is not None:
        return number
    values = torch.as_tensor(matrix, dtype=torch.float64).reshape(len(matrix), len(matrix))
    wrong = ~((values >= 0).all(dim=1) & ((values.sum(dim=1) - 1).abs() <= ROW_TOLERANCE))  # NaN is neither
    return int(wrong.nonzero()[0]) if bool(wrong.any()) else None


def check_rate(num_classes: int, rate: float) -> None:
    """Refuse a noise rate that is no share, and a number of classes below 1."""
    if num_classes < 1:
        raise ConfigError(f"num_classes = {num_classes} must be 1 or more")
    if not 0.0 <= rate <= 1.0:
        raise ConfigError(f"noise rate = {rate} must be from 0 to 1; for a percentage divide by 100")
