"""What the scikit-learn estimator accepts beside arrays: texts, data frames with categories, sparse matrices.

N: rows. D: features.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pencil.data import Text
from pencil.data.encoding import ColumnEncoding, encode, fit, words
from pencil.embed.ngrams import NGrams
from pencil.imports import need
from pencil.integrations.sklearn_checks import InputError

WIDEST = 2048
"""Sparse matrices with more columns are hashed to this many."""
Transform = Callable[[Any], Any]
"""From what the user gives to an array (N, D)."""


def fit_transform(X: Any) -> Transform | None:
    """How to turn inputs into an array, from those to train on; None for arrays and sparse matrices.

    Warns of columns that are not used.
    """
    if _are_texts(X):
        return encode_texts
    columns = _columns(X)
    if columns is None or not any(map(_needs_encoding, columns.values())):
        return None
    found = fit(list(columns), _blocks(columns))
    ignored = sum(bool(each.ignored) for each in found)
    if 0 < ignored < len(found):  # with nothing left, encoding raises an error
        warnings.warn(f"X: {words(found)}; leave those out, or turn them into numbers before", stacklevel=3)
    return FrameEncoding(found)


def encode_texts(X: Any) -> NDArray[np.float32]:
    """Hashed n-grams (N, D) of texts (N,)."""
    if not _are_texts(X):
        raise InputError("X: fit saw texts; predict on texts")
    return NGrams().encode([Text(text) for text in X]).numpy()


@dataclass(frozen=True)
class FrameEncoding:
    """Numbers and categories of a data frame as features; see ``pencil.data.encoding``."""

    encodings: tuple[ColumnEncoding, ...]

    def __call__(self, X: Any) -> NDArray[np.float32]:
        """Features (N, D) of a data frame with the same columns."""
        columns = _columns(X)
        used = [each.name for each in self.encodings if not each.ignored]
        if not used:
            raise InputError(
                "X: no column has numbers or categories, only texts or values that never repeat; give a column of "
                "texts as a list, fit(frame['text'], y)"
            )
        missing = [name for name in used if columns is None or name not in columns]
        if columns is None or missing:
            raise InputError(f"X: no column {missing[0]!r}, which fit saw; predict on data frames like that")
        kept = {name: columns[name] for name in used}
        return encode(self.encodings, used, lambda: _blocks(kept), len(columns[used[0]]))


@dataclass(frozen=True)
class ArrayInputs:
    """Inputs (N, ...) in a NumPy array of any numeric type, which may be memory-mapped, or a sparse matrix (N, D)."""

    values: Any

    def __len__(self) -> int:
        return int(self.values.shape[0])

    def fetch(self, indices: Tensor) -> Tensor:
        """Copies of the rows numbered ``indices``, as floats."""
        batch = self.values[indices.numpy()]
        batch = batch.toarray() if hasattr(batch, "toarray") else batch
        known = batch.dtype in (np.float16, np.float32, np.float64)
        return torch.from_numpy(batch if known else batch.astype(np.float32))


def narrowed(X: Any, *, warn: bool) -> Any:
    """A wide sparse matrix hashed to fewer columns, with signs, so that inner products stay about the same."""
    if not hasattr(X, "tocsr") or X.shape[1] <= WIDEST:
        return X
    if warn:
        warnings.warn(
            f"X: {X.shape[1]:,} sparse columns are hashed to {WIDEST:,} features; to choose features yourself, "
            "reduce them before, for example with TruncatedSVD",
            stacklevel=3,
        )
    sparse: Any = need("scipy.sparse", extra="sklearn", purpose="read sparse matrices")
    mixed = np.arange(X.shape[1], dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(31)
    signs = np.where(mixed & np.uint64(1 << 20), np.float32(1), np.float32(-1))
    places = (np.arange(X.shape[1]), (mixed % np.uint64(WIDEST)).astype(np.int64))
    return (X @ sparse.csr_matrix((signs, places), shape=(X.shape[1], WIDEST))).tocsr()


def _are_texts(X: Any) -> bool:
    """Whether X is a list, an array (N,) or a column of texts."""
    if getattr(X, "ndim", 1) != 1 or hasattr(X, "columns") or not hasattr(X, "__len__") or not len(X):
        return False
    return all(isinstance(text, str) for text in X)


def _columns(X: Any) -> Mapping[str, Sequence[Any]] | None:
    """The columns of a data frame or of a Hugging Face data set; None for anything else."""
    if hasattr(X, "column_names") and hasattr(X, "features"):
        return {name: X[name] for name in X.column_names}
    if not hasattr(X, "columns") or not hasattr(X, "dtypes"):
        return None
    twice = [name for name, count in Counter(map(str, X.columns)).items() if count > 1]
    if twice:
        raise InputError(f"X: has more than one column {twice[0]!r}; rename or remove all but one")
    return {str(name): list(X[name]) for name in X.columns}


def _needs_encoding(values: Sequence[Any]) -> bool:
    return any(value is None or isinstance(value, str) or is_missing(value) for value in values)


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, NaT or pandas' NA, which compares to neither true nor false."""
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):
        return str(value) == "<NA>"


def _blocks(columns: Mapping[str, Sequence[Any]]) -> Iterator[list[list[str]]]:
    cells = ([_cell(value) for value in values] for values in columns.values())
    yield [list(row) for row in zip(*cells, strict=True)]


def _cell(value: Any) -> str:
    return "" if is_missing(value) else str(value).strip()
