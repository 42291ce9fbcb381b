"""Data that can be read but is hardly what was meant: a run that begins with it is refused, with what to do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from pencil.data.examples import Examples
from pencil.data.inputs import SubsetInputs, TensorInputs
from pencil.data.matching import has_own_ids
from pencil.errors import DataError

_SAID_BY = ("annotator", "worker", "rater", "labeler", "labeller", "coder")


def check_plausible(train: Examples, path: str) -> None:
    """Check classes, ids and features of the examples to train on; ``path`` is for messages."""
    check_class_names(train.class_names, path)
    base = train.inputs.base if isinstance(train.inputs, SubsetInputs) else train.inputs
    if isinstance(base, TensorInputs):  # other readers check ids row by row
        _check_varied(base.values, path)
        if has_own_ids(train.ids):
            _check_ids(train.ids, path)


def check_class_names(names: Sequence[str], path: str) -> None:
    """Refuse classes whose names differ only in case or blanks; single letters may."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(" ".join(name.casefold().split()), name)
        if other != name and len(name) > 1:
            raise DataError(
                f"{path}: the labels {other!r} and {name!r} differ only in case or blanks; write one of them, or "
                "rename one if they are two classes"
            )


def _check_ids(ids: Sequence[str], path: str) -> None:
    first: dict[str, int] = {}
    for row, name in enumerate(ids):
        before = first.setdefault(name, row)
        if before != row:
            raise DataError(
                f"{path}: rows {before} and {row} have the same id, {name!r}; give each row its own, or leave the ids "
                "out"
            )


def _check_varied(values: Tensor, path: str) -> None:
    """Refuse features (N, D) of which all rows are equal."""
    if len(values) > 1 and all(torch.equal(some, values[:1].expand_as(some)) for some in values.split(65536)):
        raise DataError(
            f"{path}: all rows have the same features, so nothing tells them apart; compute them again"
        )


def check_columns(names: Iterable[str], path: str) -> None:
    """Refuse columns that say who gave a label: they are no features."""
    for name in names:
        plain = name.strip().lower().removesuffix("_id").removesuffix("id").rstrip("_ ")
        if plain in _SAID_BY:
            raise DataError(
                f"{path}: the column {name!r} says who gave a label, which is no feature; write one row for each "
                "example, with the votes of all as cat:3 dog:1 in a column votes, or remove the column"
            )
