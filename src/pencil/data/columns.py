"""Files of named columns, read row by row: CSV, JSON lines, Parquet, Arrow, and a data set that Hugging Face saved.

A data set of Hugging Face (``save_to_disk``) is a folder of Arrow files, or a folder of such folders, one for each
split. It is read with pyarrow alone.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from pencil.data.tables import Cells, by_column, column_names, csv_rows
from pencil.errors import DataError, PencilError
from pencil.imports import need
from pencil.reading import JSON_BYTES, open_plain, parse_json, read_bytes, read_json

CSV, LINES, ARROW = (".csv", ".tsv"), (".jsonl", ".ndjson", ".json"), (".arrow", ".feather")
SUFFIXES = (*CSV, *LINES, ".parquet", *ARROW)
"""Endings of files of columns."""
FOLDERS = ("dataset_dict.json", "state.json")
"""What a folder of Hugging Face's has in it: several splits, or one."""
HEAD = 200
"""Rows that show what the columns hold."""
_LINE_BYTES = 16 << 20
_FEWEST_ROWS = 1_000_000  # of a Parquet file, before its rows are compared with its bytes
Rows = Generator[dict[Any, Any], None, None]
Read = Callable[[Sequence[str] | None], Rows]


@dataclass(frozen=True)
class ColumnFile:
    """A file of columns.

    Attributes:
        path: The file or folder.
        names: Its columns.
        read: Yields rows by column; called with the columns that are needed, None for all.
        classes: Names of the classes that a column of numbers refers to, where the file has them.
    """

    path: Path
    names: tuple[str, ...]
    read: Read
    classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def rows(self, columns: Sequence[str] | None = None) -> Rows:
        """Yield the rows, with class names in place of numbers; some formats yield all columns in any case."""
        named = [name for name in self.classes if columns is None or name in columns]
        for cells in self.read(columns):
            for name in named:
                cells[name] = _class_name(cells.get(name), self.classes[name])
            yield cells

    def head(self) -> list[Cells]:
        """The first rows."""
        with contextlib.closing(self.rows()) as rows:
            return list(itertools.islice(rows, HEAD))


def open_columns(path: Path) -> ColumnFile:
    """Open a file of columns, or a folder that Hugging Face's ``save_to_disk`` wrote."""
    suffix = path.suffix.lower()
    if path.is_dir():
        return _open_folder(path)
    if suffix in CSV:
        return _open_csv(path)
    if suffix in LINES:
        return _open_lines(path)
    if suffix == ".parquet":
        return _open_parquet(path)
    if suffix in ARROW:
        return _open_arrow([(path, None)], path)
    if not path.exists():
        raise DataError(f"{path}: cannot be read, there is no such file; correct the path")
    raise DataError(
        f"{path}: cannot read a table from {path.suffix!r}; use .csv, .tsv, .jsonl, .parquet or .arrow"
    )


def _class_name(value: Any, names: Sequence[str]) -> Any:
    """The name of a class number; Hugging Face writes -1 for a label that is not known."""
    if isinstance(value, int) and -1 <= value < len(names):
        return None if value < 0 else names[value]
    return value


def _open_csv(path: Path) -> ColumnFile:
    with contextlib.closing(csv_rows(path)) as lines:
        names = column_names(next(lines, []), path)

    def read(_: Sequence[str] | None) -> Rows:
        return (by_column(names, row) for row in itertools.islice(csv_rows(path), 1, None))

    return ColumnFile(path, tuple(names), read)


def _open_lines(path: Path) -> ColumnFile:
    def read(_: Sequence[str] | None) -> Rows:
        return (_object(found, place) for found, place in _json_values(path))

    with contextlib.closing(read(None)) as rows:
        names = dict.fromkeys(name for cells in itertools.islice(rows, HEAD) for name in cells)
    return ColumnFile(path, tuple(names), lambda _: (dict.fromkeys(names) | cells for cells in read(None)))


def _json_values(path: Path) -> Iterator[tuple[Any, str]]:
    """Yield the values of a file of JSON lines, or of one list, with their places."""
    with open_plain(path) as file:
        listed = file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")
        file.seek(0)
        if not listed:
            yield from _json_lines(file, path)
            return
    found = parse_json(read_bytes(path, limit=JSON_BYTES).removeprefix(b"\xef\xbb\xbf"), source=path)
    yield from ((value, f"{path}, entry {number}") for number, value in enumerate(found, start=1))


def _json_lines(file: BinaryIO, path: Path) -> Iterator[tuple[Any, str]]:
    for number in itertools.count(1):
        line, place = file.readline(_LINE_BYTES).removeprefix(b"\xef\xbb\xbf"), f"{path}, line {number}"
        if not line:
            return
        if len(line) == _LINE_BYTES:
            raise DataError(f"{place}: is longer than {_LINE_BYTES:,} bytes; write one object per line")
        if line.strip():
            yield parse_json(line, source=place), place


def _object(value: Any, place: str) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise DataError(
            f'{place}: is not an object; write each row as an object such as {{"text": ..., "label": ...}}'
        )
    return value


def _open_parquet(path: Path) -> ColumnFile:
    parquet = need("pyarrow.parquet", extra="tables", purpose="read Parquet tables")

    def read(columns: Sequence[str] | None) -> Rows:
        with open_plain(path) as file, _damage(path, "Parquet"):
            table = parquet.ParquetFile(file)
            kept = None if columns is None else [name for name in table.schema_arrow.names if name in columns]
            for batch in table.iter_batches(batch_size=1024, columns=kept, use_threads=False):
                yield from batch.to_pylist()

    with open_plain(path) as file, _damage(path, "Parquet"):
        table = parquet.ParquetFile(file)
        _check_rows(table.metadata.num_rows, file, path)
        schema = table.schema_arrow
        return ColumnFile(path, tuple(schema.names), read, _classes(schema, path))


def _check_rows(rows: int, file: BinaryIO, path: Path) -> None:
    """A row takes at least one byte."""
    size = os.fstat(file.fileno()).st_size
    if rows > max(_FEWEST_ROWS, size):
        raise DataError(f"{path}: claims {rows:,} rows in {size:,} bytes; it is damaged, write it again")


def _open_folder(path: Path) -> ColumnFile:
    """Arrow files in the order of ``state.json``; rows of several splits have the split's name."""
    try:
        splits = [""]
        if (path / FOLDERS[0]).is_file():
            splits = [_plain_name(name, path) for name in read_json(path / FOLDERS[0])["splits"]]
        files = [
            (path / split / _plain_name(part["filename"], path), split or None)
            for split in splits
            for part in read_json(path / split / FOLDERS[1])["_data_files"]
        ]
    except (KeyError, TypeError, IndexError) as error:
        raise DataError(
            f"{path}: {' and '.join(FOLDERS)} are not those of a data set that Hugging Face saved; save it again"
        ) from error
    if not files:
        raise DataError(f"{path}: the data set has no files; save it again")
    return _open_arrow(files, path)


def _plain_name(name: Any, path: Path) -> str:
    if not isinstance(name, str) or Path(name).name != name:
        raise DataError(f"{path}: names the file {name!r}, which is not in it; save the data set again")
    return name


def _open_arrow(files: Sequence[tuple[Path, str | None]], path: Path) -> ColumnFile:
    ipc = need("pyarrow.ipc", extra="tables", purpose="read Arrow files")

    def read(columns: Sequence[str] | None) -> Rows:
        for name, split in files:
            more = {} if split is None else {"split": split}
            with open_plain(name) as file, _damage(name, "Arrow"):
                for batch in _batches(ipc, file):
                    kept = [each for each in batch.schema.names if columns is None or each in columns]
                    rows = range(0, batch.num_rows, 1024)
                    slices = (batch.select(kept).slice(start, 1024).to_pylist() for start in rows)
                    yield from (cells | more for part in slices for cells in part)

    first, split = files[0]
    with open_plain(first) as file, _damage(first, "Arrow"):
        schema = _reader(ipc, file).schema
    names = schema.names if split is None else [*(name for name in schema.names if name != "split"), "split"]
    return ColumnFile(path, tuple(names), read, _classes(schema, path))


def _reader(ipc: Any, file: BinaryIO) -> Any:
    """A reader of the stream that Hugging Face writes, or of an Arrow file."""
    is_file = file.read(6) == b"ARROW1"
    file.seek(0)
    return ipc.open_file(file) if is_file else ipc.open_stream(file)


def _batches(ipc: Any, file: BinaryIO) -> Iterator[Any]:
    reader = _reader(ipc, file)
    if hasattr(reader, "num_record_batches"):
        return (reader.get_batch(number) for number in range(reader.num_record_batches))
    return iter(reader)


def _classes(schema: Any, path: Path) -> dict[str, tuple[str, ...]]:
    """Class names that Hugging Face wrote into the schema."""
    stored = (schema.metadata or {}).get(b"huggingface")
    if stored is None:
        return {}
    values = parse_json(stored, source=f"{path}: its metadata of Hugging Face")
    with contextlib.suppress(TypeError, AttributeError, KeyError):  # it may be anything
        features = values["info"]["features"]
        return {
            name: tuple(map(str, found["names"]))
            for name, found in features.items()
            if found.get("_type") == "ClassLabel"
        }
    return {}


@contextlib.contextmanager
def _damage(path: Path, what: str) -> Iterator[None]:
    try:
        yield
    except PencilError:
        raise
    except Exception as error:  # pyarrow's own errors, and what damaged schemas make of it
        raise DataError(f"{path}: cannot be read as {what} ({error}); write it again") from error
