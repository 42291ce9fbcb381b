"""Examples that cannot be read, found before training: every image is decoded once, in the order of the rows.

What is left out depends on the files alone, so that a resumed run and every rank leave out the same rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import torch

from pencil.data.examples import Examples, Splits, Unlabelled
from pencil.data.inputs import Inputs, SubsetInputs, shown
from pencil.errors import DataError, ExampleError

LINE_SECONDS = 2.0
Progress = Callable[[int, int], None]
"""Called with the rows checked and all rows, at most once in ``LINE_SECONDS``."""
_Rows = TypeVar("_Rows", Examples, Unlabelled)


def leave_out_unreadable(splits: Splits, progress: Progress = lambda *_: None) -> Splits:
    """The examples that can be read; the others are listed in ``skipped_rows``."""
    skipped = dict(splits.skipped_rows)
    parts: dict[str, Any] = {}
    for name in ("train", "test", "validation"):
        examples: Examples | None = getattr(splits, name)
        if examples is not None:
            parts[name], bad = _readable(examples, f" of the {name} split", progress)
            skipped |= bad
    return replace(splits, skipped_rows=skipped, **parts)


def leave_out_unreadable_alone(rows: Unlabelled, progress: Progress = lambda *_: None) -> Unlabelled:
    """The rows without labels that can be read; the others are listed in ``skipped_rows``."""
    left, bad = _readable(rows, "", progress)
    return replace(left, skipped_rows={**rows.skipped_rows, **bad})


def _readable(rows: _Rows, where: str, progress: Progress) -> tuple[_Rows, dict[str, str]]:
    """The rows that can be read, and what is wrong with the others, by id."""
    if not _is_lazy(rows.inputs):
        return rows, {}
    bad = _unreadable(rows, progress)
    return _without(rows, bad, where), {rows.ids[row]: reason for row, reason in bad.items()}


def _is_lazy(inputs: Inputs) -> bool:
    base = inputs.base if isinstance(inputs, SubsetInputs) else inputs
    return getattr(base, "is_lazy", False)


def _unreadable(examples: Examples | Unlabelled, progress: Progress) -> dict[int, str]:
    """What is wrong with each row that cannot be read."""
    found = {}
    for row in _reported(len(examples), progress):
        try:
            shown(examples.inputs, row)
        except ExampleError as error:
            found[row] = str(error)
    return found


def _reported(rows: int, progress: Progress) -> Iterator[int]:
    last = time.monotonic()
    for row in range(rows):
        yield row
        if time.monotonic() - last >= LINE_SECONDS:
            progress(row + 1, rows)
            last = time.monotonic()


def _without(examples: _Rows, bad: dict[int, str], where: str) -> _Rows:
    """The other rows; the first of them gives the size of images that are not resized."""
    if not bad:
        return examples
    good = torch.tensor([row for row in range(len(examples)) if row not in bad], dtype=torch.int64)
    if not len(good):
        raise DataError(f"no example{where} can be read; fix the files, first: {next(iter(bad.values()))}")
    left = examples.subset(good)
    assert isinstance(left.inputs, SubsetInputs)
    base, indices = left.inputs.base, left.inputs.indices
    if not hasattr(base, "sized_by"):
        return left
    return replace(left, inputs=SubsetInputs(base.sized_by(int(indices[0])), indices))
