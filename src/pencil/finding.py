"""``pencil.find_errors``: which labels seem wrong, from features or a model's probabilities, in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from pencil.belief import SHARE, believe, believe_probabilities
from pencil.data.implausible import check_class_names
from pencil.errors import DataError
from pencil.integrations.sklearn_inputs import fit_transform, is_missing, narrowed
from pencil.results.label_errors import LabelErrors

LEAST_ROWS = 10


def find_errors(
    features: Any = None,
    labels: ArrayLike | None = None,
    *,
    pred_probs: ArrayLike | None = None,
    trusted: ArrayLike | None = None,
    max_false: float = SHARE,
) -> LabelErrors:
    """Find wrong labels, in seconds and without training.

        errors = pencil.find_errors(features, labels)
        print(errors)                                       # what was found, and what to do next
        better = errors.labels()                            # corrections that are sure enough
        rows = errors.ask(100)                              # ten minutes of looking
        errors = errors.answer(rows, what_they_are)         # release many more

    Args:
        features: What the labels can be told from: numbers (N, D) such as embeddings, a sparse matrix, texts (N,), or
            a data frame, also with categories and missing values.
        labels: (N,) the labels: numbers or texts.
        pred_probs: In place of features, a model's probabilities (N, C) of rows that it did not learn from
            (cross-validation), with the classes in sorted order.
        trusted: (N,) bool, rows whose label is verified.
        max_false: The largest share of wrong labels among those that ``labels()`` replaces.

    Returns:
        Arrays with an entry per row (``p_wrong``, ``suggested``, ``confidence``, ``verdict``, ``order``), and what is
        claimed about all of them (``noise``, ``by_class``).
    """
    if labels is None or (features is None) == (pred_probs is None):
        raise DataError("find_errors: give labels, and either features or pred_probs")
    if not 0 < max_false < 1:
        raise DataError(f"max_false: {max_false} must be between 0 and 1")
    names, given = _classes(labels)
    sure = None if trusted is None else _mask(trusted, len(given))
    with torch.no_grad():
        if pred_probs is not None:
            belief = believe_probabilities(_probabilities(pred_probs, len(given), len(names)), given, sure)
        else:
            belief = believe(_numbers(features, len(given)), given, len(names), sure)
    return LabelErrors(belief, names, max_false=max_false)


def _classes(labels: ArrayLike) -> tuple[NDArray[Any], Tensor]:
    """The classes (C,) in sorted order, and the number (N,) of each label."""
    cells = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)  # type: ignore[arg-type]
    if len(cells) < LEAST_ROWS:
        raise DataError(f"labels: {len(cells)} rows; give at least {LEAST_ROWS}")
    empty = [row for row, value in enumerate(cells) if is_missing(value)]
    if empty:
        raise DataError(f"labels: row {empty[0]} has no label; leave out the {len(empty):,} rows without one")
    if len({isinstance(value, str) for value in cells}) > 1:
        raise DataError("labels: numbers and texts are mixed; use one of them")
    values = np.asarray(labels)
    if values.ndim != 1:
        raise DataError(f"labels: {values.shape} must be one label for each row")
    names, numbers = np.unique(values, return_inverse=True)
    if not 2 <= len(names) < len(values):
        raise DataError(
            f"labels: {len(names)} classes in {len(values)} rows; classes must repeat, and be at least two"
        )
    check_class_names([str(name) for name in names], "labels")
    return names, torch.from_numpy(numbers)


def _numbers(features: Any, rows: int) -> Tensor:
    transform = fit_transform(features)
    values = features if transform is None else transform(features)
    values = narrowed(values, warn=True)
    values = np.asarray(values.toarray() if hasattr(values, "toarray") else values)
    if values.ndim != 2 or len(values) != rows or not values.shape[1]:
        raise DataError(
            f"features: {values.shape} must be ({rows}, number of features), a row for each label"
        )
    if values.dtype.kind not in "fiub":
        raise DataError(f"features: {values.dtype} must be numbers")
    return _finite(values, "features")


def _probabilities(pred_probs: ArrayLike, rows: int, classes: int) -> Tensor:
    values = np.asarray(pred_probs)
    if values.shape != (rows, classes):
        raise DataError(
            f"pred_probs: {values.shape} must be ({rows}, {classes}), a row for each label, a column for each class"
        )
    found = _finite(values, "pred_probs")
    if float(found.min()) < 0 or float((found.sum(1) - 1).abs().max()) > 0.01:
        raise DataError("pred_probs: must be probabilities, from 0 to 1, that add up to 1 in each row")
    return found


def _finite(values: NDArray[Any], name: str) -> Tensor:
    found = torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))
    bad = (~found.isfinite().all(1)).nonzero()[:, 0]
    if len(bad):
        raise DataError(
            f"{name}: row {int(bad[0])} has a value that is not finite; fill or leave out {len(bad):,} rows"
        )
    return found


def _mask(trusted: ArrayLike, rows: int) -> Tensor:
    mask = np.asarray(trusted)
    if mask.shape != (rows,) or not np.isin(mask, (0, 1)).all():
        raise DataError(
            f"trusted: {mask.dtype} {mask.shape} must be bool ({rows},), one entry for each label"
        )
    return torch.from_numpy(mask.astype(bool))
