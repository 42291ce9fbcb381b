"""Untrusted tables: CSV as any spreadsheet writes it, Parquet within bounds, columns found by name."""

from __future__ import annotations

import codecs
import csv
import io
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from pencil.errors import DataError, PencilError
from pencil.imports import need
from pencil.reading import open_plain

Cells = Mapping[str, Any]
"""One row of a table by column: text from CSV, values from Parquet; extra cells of a row are under None."""

_PATHS = ("path", "file", "filename", "file_name", "filepath", "file_path", "image", "image_path", "img")
ALIASES: Mapping[str, tuple[str, ...]] = {
    "path": _PATHS,
    "label": ("label", "labels", "class", "class_name", "target", "category"),
    "id": ("id", *_PATHS),
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
_DIVIDERS = (",", ";", "\t")
_HEADER_CHARACTERS = 1 << 20
_FEWEST_ROWS = 1_000_000  # of a Parquet table, before its rows are compared with its bytes


def read_csv(path: Path, *, errors: str = "strict") -> list[list[str]]:
    """The rows of a CSV that hold anything: UTF-8 or UTF-16, divided by commas, semicolons or tabs like its first line.

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
            return [row for row in csv.reader(text, delimiter=divider, strict=True) if row]
        except UnicodeDecodeError as error:
            raise DataError(
                f"{path}: cannot be read as text ({error.reason} at byte {error.start}); save it as CSV in UTF-8"
            ) from error
        except (OSError, ValueError, csv.Error) as error:
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
    header = [name.strip() for name in header]
    twice = next((name for name, count in Counter(header).items() if count > 1), None)
    if twice is not None:
        raise DataError(f"{path}: two columns have the name {twice!r}; rename one")
    return [_by_column(header, row) for row in body]


def _by_column(header: list[str], row: list[str]) -> dict[Any, Any]:
    cells: dict[Any, Any] = dict(zip(header, row, strict=False))
    if len(row) != len(header):
        cells[None] = f"{len(row)} cells for {len(header)} columns"
    return cells


def parquet_cells(path: Path, wanted: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of a Parquet file: of its columns only those of the names ``wanted`` or beginning with ``votes_``."""
    parquet = need("pyarrow.parquet", extra="tables", purpose="read Parquet tables")
    with open_plain(path) as file:
        try:
            table = parquet.ParquetFile(file)
            _check_rows(table.metadata.num_rows, file, path)
            names: list[str] = table.schema_arrow.names
            kept = [name for name in names if name.lower() in wanted or name.startswith("votes_")]
            if not kept:
                return [dict.fromkeys(names)]
            return [dict.fromkeys(names) | row for batch in _batches(table, kept) for row in batch]
        except PencilError:
            raise
        except Exception as error:  # pyarrow's own errors, and what damaged schemas make of it
            raise DataError(f"{path}: cannot be read as Parquet ({error}); write it again") from error


def _check_rows(rows: int, file: BinaryIO, path: Path) -> None:
    """Every row names its own file, which takes at least one byte."""
    size = os.fstat(file.fileno()).st_size
    if rows > max(_FEWEST_ROWS, size):
        raise DataError(f"{path}: claims {rows:,} rows in {size:,} bytes; it is damaged, write it again")


def _batches(table: Any, columns: list[str]) -> Iterator[list[dict[str, Any]]]:
    for batch in table.iter_batches(batch_size=1024, columns=columns, use_threads=False):
        yield batch.to_pylist()


def find_column(names: Sequence[str], role: str, path: Path) -> str | None:
    """The column for a role: the one of its name, else the only one of another name for it; None without one."""
    if role in names:
        return role
    for known in ((role,), ALIASES.get(role, ())):
        fitting = [name for name in names if name.strip().lower() in known]
        if len(fitting) > 1:
            raise DataError(
                f"{path}: the columns {' and '.join(fitting)} could all be the {role}; call one of them {role}"
            )
        if fitting:
            return fitting[0]
    return None


def listed(names: Sequence[str]) -> str:
    """Names for a message, not more than a few."""
    more = [f"and {len(names) - SHOWN} more"] if len(names) > SHOWN else []
    return ", ".join([*(name[:80] for name in names[:SHOWN]), *more]) or "none"
