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
from pencil.data.examples import Splits, Unlabelled
from pencil.data.inputs import TensorInputs
from pencil.data.readers.labelled import Labelled, read_unlabelled
from pencil.data.readers.rows import LABEL_ROLES, find_roles
from pencil.data.tables import Cells, listed
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
    vectors, found = _Vectors(roles), Labelled(file, roles)
    found.read(vectors)
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
    vectors = _Vectors(roles)
    ids = read_unlabelled(file, roles, vectors)
    return None if ids is None else Unlabelled(TensorInputs(vectors.tensor()), ids)


class _Vectors:
    """Lists of equal length, collected in one block.

    Attributes:
        size: The length of the first list, which others must have; 0 before it.
        others: How many lists had another length.
    """

    def __init__(self, roles: Mapping[str, str]) -> None:
        self.names = [name for name, role in roles.items() if role == "features"]
        self._block, self.size, self.others = array("f"), 0, 0

    @property
    def count(self) -> int:
        """How many lists were added."""
        return len(self._block) // max(self.size, 1)

    def problem(self, cells: Cells) -> str | None:
        cell = self._cell(cells)
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

    def add(self, cells: Cells) -> None:
        values = array("f", self._cell(cells))
        self.size = len(values)
        self._block += values

    def _cell(self, cells: Cells) -> Any:
        return cells.get(self.names[0])

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
