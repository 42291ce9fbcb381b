"""Imbalanced features: a data set whose smallest class has a given share of the rows of its largest.

A grid names it as data, as benchmarks/grids/cifar_shapes.toml does:

    data = { kind = "python", path = "long_tail:splits", args = { path = "features.npz", ratio = 100 } }

    PYTHONPATH=benchmarks pencil bench benchmarks/grids/cifar_shapes.toml --trust-code

Class c of C keeps its first n ratio^(−c / (C − 1)) rows, where n is the number of rows of the smallest class: the usual
exponential long tail. The test split stays balanced.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pencil.data import Splits, read_features

LABELS = {"labels": "train_labels", "test_labels": "test_labels"}


def splits(path: str, ratio: float) -> Splits:
    """The data set with its long tail."""
    whole = read_features(path, keys=LABELS)
    return Splits(whole.train.subset(tail(whole.train.labels.hard, ratio)), whole.test)


def tail(labels: Tensor, ratio: float) -> Tensor:
    """The rows to keep, in order."""
    rows = [(labels == label).nonzero().flatten() for label in range(int(labels.max()) + 1)]
    most, last = min(map(len, rows)), max(len(rows) - 1, 1)
    kept = [each[: round(most * ratio ** (-label / last))] for label, each in enumerate(rows)]
    return torch.cat(kept).sort().values
