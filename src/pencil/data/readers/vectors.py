"""Features in a column of lists, such as embeddings in a Parquet file, with a label column.

N: rows. D: features.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from pencil.data.columns import ColumnFile, open_columns
from pencil.data.examples import RowNumbers, Splits, Unlabelled
from pencil.data.inputs import TensorInputs
from pencil.data.packed import PackedTexts
from pencil.data.readers.labelled import Labelled
from pencil.data.readers.rows import (
    LABEL_ROLES,
    Problems,
    by_role,
    cell_text,
    find_roles,
    has_labels,
    holds_labels,
    needed_columns,
)
from pencil.data.tables import listed
from pencil.errors import DataError

ROLES = ("features", "id", *LABEL_ROLES)


def read_vectors(
    path: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    on_error: Literal["error", "skip"] = "error",
) -> Splits:
    """Read lists of numbers and their labels; see ``read_texts`` for the arguments."""
    file = open_columns(Path(path))
    roles = _roles(file, columns or {})
    if not has_labels(by_role(dict.fromkeys(file.names), roles)):
        raise DataError(
            f"{path}: found the columns {listed(file.names)}, and none of labels; name it: "
            "--set data.columns.label=NAME"
        )
    vectors, found = _Vectors(), Labelled(file, roles)
    for cells in file.rows(needed_columns(file, roles)):
        cell = by_role(cells, roles).get("features")
        if found.add(cells, vectors.problem(cell)) is not None:
            vectors.add(cell)
    found.check(on_error)
    if vectors.others > vectors.count:
        raise DataError(
            f"{path}: the first list has {vectors.size} numbers, and {vectors.others:,} others have another number; "
            "fix the first rows"
        )
    return found.splits(TensorInputs(vectors.tensor()), on_error)


def read_vectors_alone(path: Path, columns: Mapping[str, str]) -> Unlabelled | None:
    """Lists of numbers in a file without labels; None for one with labels."""
    file = open_columns(path)
    roles = _roles(file, columns, needs_label=False)
    if holds_labels(file, roles):
        return None
    vectors, ids, problems = _Vectors(), PackedTexts(), Problems(path, can_skip=False, roles=roles)
    for number, cells in enumerate(file.rows(needed_columns(file, roles)), start=1):
        row = by_role(cells, roles)
        problem = vectors.problem(row.get("features"))
        if problem is not None:
            problems.add(number, "features", problem)
            continue
        vectors.add(row["features"])
        ids.append(cell_text(row.get("id")))
    problems.check()
    own = ids if "id" in roles.values() else RowNumbers(len(ids))
    return Unlabelled(TensorInputs(vectors.tensor()), own)


class _Vectors:
    """Lists of equal length, collected in one block.

    Attributes:
        size: The length of the first list, which others must have; 0 before it.
        others: How many lists had another length.
    """

    def __init__(self) -> None:
        self._block, self.size, self.others = array("f"), 0, 0

    @property
    def count(self) -> int:
        """How many lists were added."""
        return len(self._block) // max(self.size, 1)

    def problem(self, cell: Any) -> str | None:
        """What is wrong with a list; None if it can be added."""
        try:
            values = array("f", cell)
        except (TypeError, ValueError, OverflowError):
            values = array("f")
        fits = len(values) == (self.size or len(values))
        if values and fits and np.isfinite(values).all():
            return None
        self.others += bool(values) and not fits
        expected = f"{self.size} finite numbers" if self.size else "a list of finite numbers"
        return f"are {str(cell)[:80]}; expected {expected}"

    def add(self, cell: Any) -> None:
        values = array("f", cell)
        self.size = len(values)
        self._block += values

    def tensor(self) -> Tensor:
        return torch.from_numpy(np.frombuffer(self._block, np.float32).reshape(-1, max(self.size, 1)).copy())


def _roles(file: ColumnFile, columns: Mapping[str, str], *, needs_label: bool = True) -> dict[str, str]:
    roles = find_roles(file, ROLES, columns, needs_label=needs_label)
    if "features" not in roles.values():
        raise DataError(
            f"{file.path}: found the columns {listed(file.names)}, and none of features; name it: "
            "--set data.columns.features=NAME"
        )
    return roles
