"""Texts with labels in a file of columns: CSV, JSON lines, Parquet, Arrow.

Columns: ``text``, ``label``; optional ``id``, and ``split``, ``trusted`` and votes as in a manifest. Other names for
text and label, such as ``question`` and ``class``, are taken too where only one fits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, NoReturn

from torch import Tensor

from pencil.data.columns import ColumnFile, open_columns
from pencil.data.examples import RowNumbers, Splits, Unlabelled
from pencil.data.inputs import Text
from pencil.data.packed import PackedTexts
from pencil.data.readers.labelled import Labelled
from pencil.data.readers.rows import (
    LABEL_ROLES,
    Problems,
    by_role,
    cell_text,
    find_roles,
    has_labels,
    has_other_cells,
    holds_labels,
    needed_columns,
)
from pencil.data.recognise import text_column
from pencil.data.tables import listed
from pencil.errors import DataError

ROLES = ("text", "id", *LABEL_ROLES)


@dataclass(frozen=True)
class TextInputs:
    """Texts by row. A network needs features of them, which ``data.embed`` computes."""

    texts: PackedTexts
    is_text: ClassVar[bool] = True

    def __len__(self) -> int:
        return len(self.texts)

    def fetch(self, indices: Tensor) -> NoReturn:
        """Raises an error: a text is not a tensor."""
        raise DataError(
            f"{len(indices)} texts have no features; set an encoder: --embed ngrams, or --set data.embed=ngrams"
        )

    def shown(self, index: int) -> Text:
        """The text of a row."""
        return Text(self.texts[index])

    def content(self, index: int) -> bytes:
        """The text of a row as UTF-8."""
        text: str = self.texts[index]
        return text.encode("utf-8", "surrogatepass")

    @property
    def checksum(self) -> int:
        """Of all texts."""
        return self.texts.checksum


def read_texts(
    path: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    on_error: Literal["error", "skip"] = "error",
) -> Splits:
    """Read texts and their labels.

    Args:
        path: The file, see ``pencil.data.columns``.
        columns: The names of columns by role, if they are not the usual ones.
        on_error: "error": rows with mistakes raise an error; "skip": they are left out and listed in ``skipped_rows``.

    Returns:
        Train rows and, where there are any, test rows. Ids are those of the column ``id``, or row numbers from 0.
    """
    file = open_columns(Path(path))
    roles = _roles(file, columns)
    if not has_labels(by_role(dict.fromkeys(file.names), roles)):
        raise DataError(
            f"{path}: found the columns {listed(file.names)}, and none of labels; name it: "
            "--set data.columns.label=NAME"
        )
    texts, found = PackedTexts(), Labelled(file, roles, "text")
    for cells in file.rows(needed_columns(file, roles)):
        row = found.add(cells)
        if row is not None:
            texts.append(row.content)
    return found.splits(TextInputs(texts), on_error)


def read_texts_alone(path: Path, columns: Mapping[str, str] | None = None) -> Unlabelled | None:
    """The texts of a file without labels; None for one with labels."""
    file = open_columns(path)
    roles = _roles(file, columns, needs_label=False)
    if holds_labels(file, roles):
        return None
    texts, ids, problems = PackedTexts(), PackedTexts(), Problems(path, can_skip=False, roles=roles)
    for number, cells in enumerate(file.rows(needed_columns(file, roles)), start=1):
        row = by_role(cells, roles)
        texts.append(cell_text(row.get("text")))
        ids.append(cell_text(row.get("id")))
        if not has_other_cells(cells, number, "text", problems) and not texts[-1]:
            problems.add(number, "text", "is empty")
    problems.check()
    own = ids if "id" in roles.values() else RowNumbers(len(ids))
    return Unlabelled(TextInputs(texts), own)


def texts_in(path: Path, columns: Mapping[str, str] | None = None) -> str:
    """The column of texts."""
    roles = _roles(open_columns(path), columns, needs_label=False)
    return next(name for name, role in roles.items() if role == "text")


def _roles(
    file: ColumnFile, columns: Mapping[str, str] | None, *, needs_label: bool = True
) -> dict[str, str]:
    roles = find_roles(file, ROLES, columns or {}, needs_label=needs_label)
    if "text" in roles.values():
        return roles
    found = text_column(file, file.head())
    if found is None:
        raise DataError(
            f"{file.path}: found the columns {listed(file.names)}, and none of texts; name it: "
            "--set data.columns.text=NAME"
        )
    return {**roles, found: "text"}
