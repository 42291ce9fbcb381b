"""How a ``LabelLearner`` keeps its rows: in what store, from what start, and how many are handled at a time."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pencil.algorithm import Method
from pencil.errors import ConfigError, DataError
from pencil.stores import DenseStore, GivenLabels, RowStore, StoreChoice, TopStore, rows_at_once


def rows_of_learner(store: RowStore[Any], given: GivenLabels, *, has_start: bool) -> int:
    """Rows at a time: of cut rows and hard labels, nothing is as wide as there are classes."""
    is_narrow = isinstance(store, TopStore) and not has_start and given.values.dim() == 1
    return rows_at_once(store.row_width if is_narrow else max(store.row_width, given.num_classes))


def start_store(probabilities: Tensor, shape: tuple[int, int]) -> DenseStore:
    """Probabilities (N, C) that a user gives to start from, checked, in a store."""
    if probabilities.shape != shape:
        raise DataError(
            f"start: {tuple(probabilities.shape)} must have the shape {shape}, a row for each label"
        )
    bad = ~((probabilities >= 0).all(dim=1) & ((probabilities.double().sum(dim=1) - 1).abs() < 1e-2))
    if bool(bad.any()):  # also NaN
        raise DataError(
            f"start: row {int(bad.int().argmax())} is not a distribution; give probabilities that sum to 1, not logits "
            "or counts"
        )
    store = DenseStore(*shape)
    store.scatter(torch.arange(shape[0]), probabilities.float())
    return store


def fitting_method(method: Method, choice: StoreChoice, num_classes: int) -> Method:
    """The method for the kind of rows that a store keeps."""
    if choice.k is None or not choice.keeps_top(method.row_width(num_classes)):
        return method
    fitting = method.cut(choice.k)
    if fitting is None:
        raise ConfigError(
            f"store: '{choice}' cuts rows, which method {method.name!r} cannot use; set store to dense or dense:mapped"
        )
    return fitting
