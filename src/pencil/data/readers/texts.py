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
from pencil.data.examples import Splits, Unlabelled
from pencil.data.inputs import Text
from pencil.data.packed import PackedTexts
from pencil.data.readers.labelled import Labelled, read_unlabelled
from pencil.data.readers.rows import LABEL_ROLES, cell_text, find_roles
from pencil.data.recognise import text_column
from pencil.data.tables import Cells, listed
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
    texts, found = _Texts(roles), Labelled(file, roles)
    found.read(texts)
    return found.splits(TextInputs(texts.packed), on_error)


def read_texts_alone(path: Path, columns: Mapping[str, str] | None = None) -> Unlabelled | None:
    """The texts of a file without labels; None for one with labels."""
    file = open_columns(path)
    roles = _roles(file, columns, needs_label=False)
    texts = _Texts(roles)
    ids = read_unlabelled(file, roles, texts)
    return None if ids is None else Unlabelled(TextInputs(texts.packed), ids)


class _Texts:
    """The texts of rows, collected."""

    def __init__(self, roles: Mapping[str, str]) -> None:
        self.names = [name for name, role in roles.items() if role == "text"]
        self.packed = PackedTexts()

    def problem(self, cells: Cells) -> str | None:
        return None if cell_text(cells.get(self.names[0])) else "is empty"

    def add(self, cells: Cells) -> None:
        self.packed.append(cell_text(cells.get(self.names[0])))


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
