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
from pencil.data.examples import Splits, Unlabelled
from pencil.data.implausible import check_columns
from pencil.data.inputs import Record
from pencil.data.packed import PackedTexts
from pencil.data.readers.labelled import Labelled, read_unlabelled
from pencil.data.readers.rows import LABEL_ROLES, VOTES, cell_text, find_roles
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
    records = _Records(file, roles)
    ids = read_unlabelled(file, roles, records) if encoding else None
    return None if ids is None else Unlabelled(_inputs(records.rows, records.names, encoding, path), ids)


class _Records:
    """The cells of rows in columns without a role, collected."""

    def __init__(self, file: ColumnFile, roles: Mapping[str, str]) -> None:
        self.names = tuple(name for name in file.names if name not in roles and not name.startswith(VOTES))
        self.rows = PackedTexts()

    def problem(self, _: Cells) -> str | None:
        return None

    def add(self, cells: Cells) -> None:
        texts = (cell_text(cells.get(name)).replace(_BETWEEN, " ") for name in self.names)
        self.rows.append(_BETWEEN.join(texts))


@dataclass(frozen=True)
class _Table:
    path: Path
    records: _Records
    labelled: Labelled

    @classmethod
    def read(cls, path: Path, columns: Mapping[str, str], on_error: str) -> _Table:
        file = open_columns(path)
        roles = find_roles(file, ROLES, columns)
        table = cls(path, _Records(file, roles), Labelled(file, roles))
        check_columns(table.records.names, str(path))
        table.labelled.read(table.records)
        table.labelled.check(on_error)
        return table

    def fitted(self) -> tuple[ColumnEncoding, ...]:
        names, rows = self.records.names, self.records.rows
        found = fit(names, _blocks(rows, self.labelled.train_rows)) if names else ()
        if all(each.ignored for each in found):
            reasons = listed([f"{each.name} ({each.ignored})" for each in found])
            raise DataError(f"{self.path}: no column has numbers or categories to learn from: {reasons}")
        return found

    def inputs(self, encoding: Sequence[ColumnEncoding]) -> RecordInputs:
        return _inputs(self.records.rows, self.records.names, encoding, self.path)


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


def _blocks(rows: PackedTexts, chosen: Sequence[int]) -> Iterator[list[list[str]]]:
    for start in range(0, len(chosen), _BLOCK):
        yield [rows[row].split(_BETWEEN) for row in chosen[start : start + _BLOCK]]
