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
from pencil.data.packed import PackedTexts
from pencil.data.readers.labelled import Labelled
from pencil.data.readers.rows import LABEL_ROLES, by_role, cell_text, find_roles, has_labels, needed_columns
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
    vectors, found = _Vectors(file.path), Labelled(file, roles)
    for number, cells in enumerate(file.rows(needed_columns(file, roles)), start=1):
        if found.add(cells) is not None:
            vectors.add(by_role(cells, roles)["features"], number)
    found.check(on_error)
    return found.splits(TensorInputs(vectors.tensor()), on_error)


def read_vectors_alone(path: Path, columns: Mapping[str, str]) -> Unlabelled | None:
    """Lists of numbers in a file without labels; None for one with labels."""
    file = open_columns(path)
    asked = {role: name for role, name in columns.items() if role != "label" or name in file.names}
    roles = _roles(file, asked)
    if has_labels(by_role(dict.fromkeys(file.names), roles)):
        return None
    vectors, ids = _Vectors(path), PackedTexts()
    for number, cells in enumerate(file.rows(needed_columns(file, roles)), start=1):
        row = by_role(cells, roles)
        vectors.add(row["features"], number)
        ids.append(cell_text(row.get("id", number - 1)))
    return Unlabelled(TensorInputs(vectors.tensor()), ids)


class _Vectors:
    """Lists of equal length, collected in one block."""

    def __init__(self, path: Path) -> None:
        self._path, self._block, self._size = path, array("f"), 0

    def add(self, cell: Any, number: int) -> None:
        try:
            values = array("f", cell)
        except (TypeError, ValueError, OverflowError):
            values = array("f")
        if not values or (self._size and len(values) != self._size) or not np.isfinite(values).all():
            expected = f"{self._size} finite numbers" if self._size else "a list of finite numbers"
            raise DataError(
                f"{self._path}, row {number}: features are {str(cell)[:80]}; expected {expected}; fix that row"
            )
        self._size = len(values)
        self._block += values

    def tensor(self) -> Tensor:
        return torch.from_numpy(np.frombuffer(self._block, np.float32).reshape(-1, self._size).copy())


def _roles(file: ColumnFile, columns: Mapping[str, str]) -> dict[str, str]:
    roles = find_roles(file, ROLES, columns)
    if "features" not in roles.values():
        raise DataError(
            f"{file.path}: found the columns {listed(file.names)}, and none of features; name it: "
            "--set data.columns.features=NAME"
        )
    return roles
