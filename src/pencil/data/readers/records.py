"""Tables of numbers and categories with a label column, as CSV, JSON lines, Parquet or Arrow.

Every column without a role (``label``, ``id``, ``split``, ``trusted``, votes) is used, see ``pencil.data.encoding``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from pencil.data.columns import ColumnFile, open_columns
from pencil.data.encoding import ColumnEncoding, encode, fit
from pencil.data.examples import RowNumbers, Splits, Unlabelled
from pencil.data.inputs import Record
from pencil.data.packed import PackedTexts
from pencil.data.readers.labelled import Labelled
from pencil.data.readers.rows import (
    LABEL_ROLES,
    VOTES,
    Problems,
    by_role,
    cell_text,
    find_roles,
    has_labels,
    has_other_cells,
    holds_labels,
)
from pencil.data.tables import Cells, listed
from pencil.errors import DataError

ROLES = ("id", *LABEL_ROLES)
_BETWEEN = "\x1f"  # stands between the cells of a row; text has no such character
_BLOCK = 4096


@dataclass(frozen=True)
class RecordInputs:
    """Rows of a table: features for the network, named values for people.

    Attributes:
        values: (N, D) the features.
        rows: The cells of each row.
        names: The columns.
    """

    values: Tensor
    rows: PackedTexts
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.values)

    def fetch(self, indices: Tensor) -> Tensor:
        """The features (B, D) of some rows (B,)."""
        return self.values[indices]

    def shown(self, index: int) -> Record:
        """The cells of a row by column."""
        return Record(dict(zip(self.names, self.rows[index].split(_BETWEEN), strict=True)))

    def content(self, index: int) -> bytes:
        """The columns and the cells of a row as UTF-8."""
        text = f"{self.names}{_BETWEEN}{self.rows[index]}"
        return text.encode("utf-8", "surrogatepass")

    @property
    def checksum(self) -> int:
        """Of all cells."""
        return self.rows.checksum


def read_records(
    path: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    encoding: Sequence[ColumnEncoding] = (),
    on_error: Literal["error", "skip"] = "error",
) -> Splits:
    """Read a table with labels.

    Args:
        path: The file, see ``pencil.data.columns``.
        columns: The names of columns by role, if they are not the usual ones.
        encoding: How columns become features; fitted to the rows to train on where it is empty.
        on_error: "error": rows with mistakes raise an error; "skip": they are left out and listed in ``skipped_rows``.
    """
    table = _Table.read(Path(path), columns or {}, on_error)
    fitted = tuple(encoding) or table.fitted()
    return table.labelled.splits(table.inputs(fitted), on_error)


def fit_records(
    path: Path, columns: Mapping[str, str], on_error: Literal["error", "skip"] = "error"
) -> tuple[ColumnEncoding, ...]:
    """How the columns of a table become features, from its rows to train on."""
    return _Table.read(path, columns, on_error).fitted()


def read_records_alone(
    path: Path, columns: Mapping[str, str], encoding: Sequence[ColumnEncoding]
) -> Unlabelled | None:
    """The rows of a table without labels; None for one with labels, or where nothing was fitted yet."""
    file = open_columns(path)
    roles = find_roles(file, ROLES, columns, needs_label=False)
    if not encoding or holds_labels(file, roles):
        return None
    names, rows, ids = _values(file, roles), PackedTexts(), PackedTexts()
    problems = Problems(path, can_skip=False)
    for number, cells in enumerate(file.rows()):
        if not has_other_cells(cells, number + 1, names[0] if names else "id", problems):
            rows.append(_joined(cells, names))
            ids.append(cell_text(by_role(cells, roles).get("id")))
    problems.check()
    own = ids if "id" in roles.values() else RowNumbers(len(ids))
    return Unlabelled(_inputs(rows, names, encoding, path), own)


@dataclass(frozen=True)
class _Table:
    path: Path
    names: tuple[str, ...]
    rows: PackedTexts
    labelled: Labelled

    @classmethod
    def read(cls, path: Path, columns: Mapping[str, str], on_error: str) -> _Table:
        file = open_columns(path)
        roles = find_roles(file, ROLES, columns)
        if not has_labels(by_role(dict.fromkeys(file.names), roles)):
            raise DataError(
                f"{path}: found the columns {listed(file.names)}, and none of labels; name it: "
                "--set data.columns.label=NAME (the first line must hold the names)"
            )
        table = cls(path, _values(file, roles), PackedTexts(), Labelled(file, roles))
        for cells in file.rows():
            if table.labelled.add(cells) is not None:
                table.rows.append(_joined(cells, table.names))
        table.labelled.check(on_error)
        return table

    def fitted(self) -> tuple[ColumnEncoding, ...]:
        found = fit(self.names, _blocks(self.rows, self.labelled.train_rows)) if self.names else ()
        if all(each.ignored for each in found):
            reasons = listed([f"{each.name} ({each.ignored})" for each in found])
            raise DataError(f"{self.path}: no column has numbers or categories to learn from: {reasons}")
        return found

    def inputs(self, encoding: Sequence[ColumnEncoding]) -> RecordInputs:
        return _inputs(self.rows, self.names, encoding, self.path)


def _inputs(
    rows: PackedTexts, names: tuple[str, ...], encoding: Sequence[ColumnEncoding], path: Path
) -> RecordInputs:
    missing = [each.name for each in encoding if not each.ignored and each.name not in names]
    if missing:
        raise DataError(f"{path}: no column {missing[0]!r}, which the model needs; found {listed(names)}")
    try:
        values = encode(encoding, names, lambda: _blocks(rows, range(len(rows))), len(rows))
    except DataError as error:
        raise DataError(f"{path}, {error}") from error
    return RecordInputs(torch.from_numpy(values), rows, names)


def _values(file: ColumnFile, roles: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(name for name in file.names if name not in roles and not name.startswith(VOTES))


def _joined(cells: Cells, names: Sequence[str]) -> str:
    return _BETWEEN.join(cell_text(cells.get(name)).replace(_BETWEEN, " ") for name in names)


def _blocks(rows: PackedTexts, chosen: Sequence[int]) -> Iterator[list[list[str]]]:
    for start in range(0, len(chosen), _BLOCK):
        yield [rows[row].split(_BETWEEN) for row in chosen[start : start + _BLOCK]]
