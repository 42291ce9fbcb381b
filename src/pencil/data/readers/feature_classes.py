"""Classes of feature arrays: named by the file, by labels that are texts, or numbered.

N: rows. C: classes.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pencil.data.arrays import as_tensor
from pencil.errors import DataError
from pencil.stores import GivenLabels
from pencil.stores.given import count_classes

Arrays = dict[str, NDArray[Any]]
"""Arrays by role."""


def name_classes(arrays: Arrays, path: Path) -> tuple[str, ...]:
    """The file's class names, those its labels are, or "0", "1", ... as many as the labels of all splits need.

    Labels that are texts become numbers in ``arrays``.
    """
    roles = [role for role in ("labels", "test_labels") if role in arrays]
    known = _known_names(arrays, path)
    for role in roles:
        arrays[role] = _one_column(arrays[role])
    if any(arrays[role].dtype.kind in "US" for role in roles):
        return _number_texts(arrays, roles, known, path)
    return _numbered(arrays, roles, path) if known is None else known


def missing_labels(arrays: Arrays, role: str, path: Path) -> list[int]:
    """Rows whose label is an empty text or nan, and not one of the file's class names."""
    labels = _one_column(arrays[role])
    if labels.dtype.kind not in "US":
        return []
    known, texts = _known_names(arrays, path) or (), texts_of(labels, f"{path}: {role}")
    return [
        row for row, text in enumerate(texts) if text.strip().lower() in ("", "nan") and text not in known
    ]


def _known_names(arrays: Arrays, path: Path) -> tuple[str, ...] | None:
    return tuple(texts_of(arrays["names"], f"{path}: names")) if "names" in arrays else None


def _one_column(labels: NDArray[Any]) -> NDArray[Any]:
    """A column (N, 1) of labels as a list (N,)."""
    return labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels


def _number_texts(
    arrays: Arrays, roles: Sequence[str], known: tuple[str, ...] | None, path: Path
) -> tuple[str, ...]:
    texts = {role: texts_of(arrays[role], f"{path}: {role}") for role in roles}
    for role in roles:
        _check_none_missing(arrays, role, path)
    names = known or tuple(sorted({text for found in texts.values() for text in found}))
    place = {name: number for number, name in enumerate(names)}
    for role, found in texts.items():
        stray = next((row for row, text in enumerate(found) if text not in place), None)
        if stray is not None:
            raise DataError(
                f"{path}: {role}, row {stray}: {found[stray]!r} is not in names; fix that row or names"
            )
        arrays[role] = np.array([place[text] for text in found], np.int64)
    return names


def _check_none_missing(arrays: Arrays, role: str, path: Path) -> None:
    missing = missing_labels(arrays, role, path)
    if missing:
        first = texts_of(arrays[role], f"{path}: {role}")[missing[0]]
        raise DataError(
            f"{path}: {role}: {len(missing):,} are missing, first in row {missing[0]}: {first!r}; fix such rows, or "
            "leave them out: --set data.on_error=skip"
        )


def _numbered(arrays: Arrays, roles: Sequence[str], path: Path) -> tuple[str, ...]:
    rows = sum(arrays[role].shape[0] for role in roles if arrays[role].ndim)
    counts = [_class_count(arrays[role], role, rows, path) for role in roles]
    hard = [arrays[role] for role in roles if arrays[role].ndim == 1 and arrays[role].size]
    first = int(min(labels.min() for labels in hard)) if hard and len(hard) == len(roles) else 0
    if first > 0:
        warnings.warn(
            f"{path}: no row has a class below {first}; the classes are {first} to {max(counts) - 1}",
            stacklevel=4,
        )
        arrays |= {role: arrays[role] - first for role in roles}
    return tuple(map(str, range(first, max(counts))))


def _class_count(labels: NDArray[Any], role: str, rows: int, path: Path) -> int:
    if labels.dtype.kind not in "biuf":
        raise DataError(
            f"{path}: {role} must be class indices, found type {labels.dtype}; number the classes from 0"
        )
    if labels.ndim == 2:
        return int(labels.shape[1])
    if not labels.size or labels.ndim != 1:
        return 0  # reported where shapes are checked
    try:
        given = GivenLabels.of(as_tensor(labels, f"{path}: {role}"), 1 << 62)
        return count_classes(given.values, rows)
    except DataError as error:
        raise DataError(f"{path}: {'test ' if role == 'test_labels' else ''}{error}") from error


def texts_of(array: NDArray[Any], what: str) -> list[str]:
    """An array of text as a list."""
    if array.ndim != 1:
        raise DataError(f"{what} must have one dimension, found shape {array.shape}; save a list")
    try:
        decoded = np.char.decode(array, "utf-8") if array.dtype.kind == "S" else array
        return [str(text) for text in decoded.tolist()]
    except UnicodeDecodeError as error:
        raise DataError(f"{what} are not UTF-8 ({error.reason}); save them as text") from error
    except (SystemError, ValueError) as error:  # numpy keeps numbers that are no characters
        raise DataError(f"{what} are not text ({error}); save them as text") from error
