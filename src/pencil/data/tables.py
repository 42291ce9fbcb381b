"""Untrusted tables: CSV as any spreadsheet writes it, Parquet within bounds, columns found by name."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pencil.errors import DataError, did_you_mean
from pencil.reading import open_plain

Cells = Mapping[str, Any]
"""One row of a table by column: text from CSV, values from Parquet; extra cells of a row are under None."""

_PATHS = ("path", "file", "filename", "file_name", "filepath", "file_path", "image", "image_path", "img")
ALIASES: Mapping[str, tuple[str, ...]] = {
    "path": _PATHS,
    "label": ("label", "labels", "class", "class_name", "target", "category", "y"),
    "id": ("id", *_PATHS),
    "text": (
        *(
            "text",
            "texts",
            "sentence",
            "question",
            "content",
            "document",
            "review",
            "comment",
            "message",
            "body",
        ),
        *("utterance", "tweet", "query", "prompt", "headline", "description"),
    ),
    "features": ("features", "feature", "embedding", "embeddings", "vector", "vectors"),
}
"""Other names under which a column is looked for, in any case."""
SHOWN = 20
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_DIVIDERS = (",", ";", "\t", "|")
_HEADER_CHARACTERS = 1 << 20


def read_csv(path: Path, *, errors: str = "strict") -> list[list[str]]:
    """The rows of a CSV that hold anything, see ``csv_rows``."""
    return list(csv_rows(path, errors=errors))


def csv_rows(path: Path, *, errors: str = "strict") -> Generator[list[str], None, None]:
    """Yield the rows of a CSV that hold anything.

    It is UTF-8 or UTF-16, divided by commas, semicolons, tabs or vertical bars like its first line.

    Args:
        path: The file.
        errors: What to do about bytes that are not UTF-8, as for ``bytes.decode``.
    """
    with open_plain(path) as file:
        try:
            encoding = _encoding(file.read(4))
            file.seek(0)
            text = io.TextIOWrapper(file, encoding, errors, newline="")
            divider = _divider(text.readline(_HEADER_CHARACTERS))
            text.seek(0)
            yield from (row for row in csv.reader(text, delimiter=divider, strict=True) if row)
        except UnicodeDecodeError as error:
            raise DataError(
                f"{path}: cannot be read as text ({error.reason} at byte {error.start}); save it as CSV in UTF-8"
            ) from error
        except csv.Error as error:
            remedy = (
                "save long texts as JSON lines (.jsonl)"
                if "field limit" in str(error)
                else "save it as CSV in UTF-8"
            )
            raise DataError(f"{path}: cannot be read as CSV ({error}); {remedy}") from error
        except (OSError, ValueError) as error:
            raise DataError(f"{path}: cannot be read as CSV ({error}); save it as CSV in UTF-8") from error


def _encoding(head: bytes) -> str:
    """From the byte-order mark; without one, a zero byte beside the first letter means UTF-16."""
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return encoding
    if len(head) == 4 and (not head[0]) != (not head[1]):
        return "utf-16-be" if not head[0] else "utf-16-le"
    return "utf-8"


def _divider(line: str) -> str:
    """The separator that occurs most outside quotes; a comma where none does."""
    bare = re.sub(r'"[^"]*"', "", line)
    return max(_DIVIDERS, key=bare.count)


def csv_cells(path: Path) -> list[dict[str, Any]]:
    """The rows below the header of a CSV, by column."""
    header, *body = [[]] if not (rows := read_csv(path)) else rows
    names = column_names(header, path)
    return [by_column(names, row) for row in body]


def column_names(header: Sequence[str], path: Path) -> list[str]:
    """The names in the first line of a CSV, which must differ."""
    names = [name.strip() for name in header]
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise DataError(f"{path}: two columns have the name {twice!r}; rename one")
    return names


def by_column(header: Sequence[str], row: Sequence[str]) -> dict[Any, Any]:
    """The cells of a row; one that is too long or too short also has a cell under None."""
    cells: dict[Any, Any] = dict(zip(header, row, strict=False))
    if len(row) != len(header):
        cells[None] = f"{len(row)} cells for {len(header)} columns"
    return cells


def find_column(
    names: Sequence[str], role: str, path: Path, asked: Mapping[str, str] | None = None
) -> str | None:
    """The column for a role: the one asked for, the one of its name, else the only one of another name for it.

    Args:
        names: The columns there are.
        role: ``path``, ``text``, ``label``, ...
        path: The file, for messages.
        asked: Columns by role, as ``data.columns`` names them; an empty name leaves a role out.

    Returns:
        Its name; None without one.
    """
    if asked and role in asked:
        return _asked(names, role, asked[role], path) if asked[role] else None
    if role in names:
        return role
    for known in ((role,), ALIASES.get(role, ())):
        fitting = [name for name in names if name.strip().lower() in known]
        if len(fitting) > 1:
            choose = "" if asked is None else f", or choose: --set data.columns.{role}=NAME"
            raise DataError(
                f"{path}: the columns {' and '.join(fitting)} could all be the {role}; call one of them {role}{choose}"
            )
        if fitting:
            return fitting[0]
    return None


def _asked(names: Sequence[str], role: str, name: str, path: Path) -> str:
    if name not in names:
        raise DataError(
            f"{path}: no column {name!r} for data.columns.{role}{did_you_mean(name, names)}; found {listed(names)}"
        )
    return name


def listed(names: Sequence[str]) -> str:
    """Names for a message, not more than a few."""
    more = [f"and {len(names) - SHOWN} more"] if len(names) > SHOWN else []
    return ", ".join([*(name[:80] for name in names[:SHOWN]), *more]) or "none"
