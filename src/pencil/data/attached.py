"""Images or texts to show for rows of features, from files beside the data.

An entry (an image file, or a line of a table) belongs to a row by its id, or by the order of the rows:

    ids        the id column of a table; for image files the path, the path without its ending, the file name, the file
               name without its ending, or the number in it ("00012.jpg" is row 12)
    order      the first entry belongs to the first row of the data, if there are as many entries as rows and none of
               them matches by id

Rows without ids of their own have numbers from 0, which must be exactly those of the entries, see ``_is_sure``.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from torch import Tensor

from pencil.data.columns import ColumnFile, open_columns
from pencil.data.examples import Examples
from pencil.data.images import IMAGE_SUFFIXES, ImageDecoder
from pencil.data.inputs import Image, Inputs, Shown, Text
from pencil.data.matching import all_ids, has_own_ids
from pencil.data.tables import find_column, listed
from pencil.errors import DataError
from pencil.places import remedy, stays_within
from pencil.reading import MB, is_file, read_text

LEAST_SHARE = 0.5  # of the rows that must match by id; fewer are taken for an accident
TEXT_BYTES = 2048 * MB
BY_ORDER = "the order of the rows"
_NUMBERED = ", and the data an id column, or in the CSV the number of each row from 0"


@dataclass(frozen=True)
class Beside:
    """Images or texts that a user names to be shown for the rows of a run.

    Attributes:
        kind: What they are.
        path: A folder of images, or a table: ``id`` with ``path`` or ``text``; texts may also stand in a .txt file, a
            line for each row.
    """

    kind: Literal["images", "texts"]
    path: Path

    @property
    def option(self) -> str:
        """The option as the user wrote it."""
        return f"--{self.kind} {self.path}"


@dataclass(frozen=True)
class AttachedInputs:
    """Inputs of a network that are shown as the images or texts attached to them.

    Attributes:
        base: What the network receives.
        beside: What is attached.
        entries: (N,) an image file or a text for each row; None if it has none.
        matched_by: How rows and entries were matched.
    """

    base: Inputs
    beside: Beside
    entries: Sequence[Path | str | None]
    matched_by: str

    def __len__(self) -> int:
        return len(self.base)

    def fetch(self, indices: Tensor) -> Tensor:
        """What the network receives."""
        return self.base.fetch(indices)

    def shown(self, index: int) -> Shown | None:
        """The attached image or text of a row; None if it has none."""
        entry = self.entries[index]
        if isinstance(entry, Path):
            return Image(ImageDecoder.original(entry, entry))
        return None if entry is None else Text(entry)

    @property
    def missing(self) -> int:
        """The number of rows without an entry."""
        return sum(entry is None for entry in self.entries)

    @property
    def words(self) -> str:
        """How many rows match, by what, and a pair to check."""
        found = len(self.entries) - self.missing
        return f"{self.beside.option}: {found:,} of {len(self.entries):,} rows match by {self.matched_by}"


@dataclass(frozen=True)
class _Entry:
    """One image or text, with the id that its table gives it, or the name of its file."""

    value: Path | str
    id: str | None = None
    name: str | None = None


_WAYS: dict[str, Callable[[_Entry], str | None]] = {
    "id": lambda entry: entry.id,
    "path": lambda entry: entry.name,
    "path without ending": lambda entry: entry.name and str(Path(entry.name).with_suffix("")),
    "file name": lambda entry: entry.name and Path(entry.name).name,
    "file name without ending": lambda entry: entry.name and Path(entry.name).stem,
    "number": lambda entry: _number(entry.id or (Path(entry.name).stem if entry.name else "")),
}
"""What an entry can be matched by; an id of the run must be equal to it."""


def attach(rows: Examples, all_ids: Sequence[str], beside: Beside) -> Examples:
    """The same rows, shown as the images or texts that belong to them.

    Args:
        rows: The rows of a run.
        all_ids: The ids of all training rows of its data, in their order; the run may use some of them only.
        beside: The images or texts.

    Raises:
        DataError: They cannot be read, or belong to other rows.
    """
    if beside.kind == "images":
        ImageDecoder()  # a missing package shows now, not with the first image
    entries = list(_entries(beside))
    way, known = _matched(entries, all_ids, beside)
    found = AttachedInputs(rows.inputs, beside, [known.get(row_id) for row_id in rows.ids], way)
    return replace(rows, inputs=found)


def _matched(
    entries: Sequence[_Entry], ids: Sequence[str], beside: Beside
) -> tuple[str, dict[str, Path | str]]:
    """How entries are matched with ids, and the entry of each id."""
    ways = {way: _by_key(entries, key) for way, key in _WAYS.items()}
    counts = {way: sum(row_id in known for row_id in ids) for way, known in ways.items()}
    best = max(counts, key=counts.__getitem__)
    have_ids = any(entry.id for entry in entries)
    for way in (best, *ways):
        if _is_sure(ways[way], ids, counts[way], have_ids=have_ids):
            return way, ways[way]
    # One match by id shows that names mean rows, however many entries there are.
    by_order = {} if have_ids or counts[best] else _in_order(entries, all_ids(ids), beside)
    if by_order:
        return BY_ORDER, by_order
    raise _refused(entries, ids, counts[best], beside)


def _is_sure(known: Mapping[str, object], ids: Sequence[str], count: int, *, have_ids: bool) -> bool:
    """Whether entries with these names, ``count`` of which match, are those of the rows."""
    if not has_own_ids(
        ids
    ):  # files counted from 1 may have the numbers of all rows too, if row 0 was left out
        source = all_ids(ids)
        wanted = ids if len(known) == len(ids) else source
        return len(known) == len(wanted) and source[0] in known and all(row_id in known for row_id in wanted)
    # Ids 0, 1, ... would match files counted from 1. An id column of the entries makes other numbers ids.
    counted = all(map(str.isdecimal, ids)) and ("0" in ids or not have_ids)
    return count == len(ids) or (count >= LEAST_SHARE * len(ids) and not counted)


def _in_order(entries: Sequence[_Entry], ids: Sequence[str], beside: Beside) -> dict[str, Path | str]:
    """The entry of each id by order; none if there are more or fewer, or the order is not clear."""
    names = [Path(entry.name or "").parts for entry in entries] if beside.path.expanduser().is_dir() else []
    counted = [[_pieces(part) for part in name] for name in names]
    found = {row_id: entry.value for row_id, entry in zip(ids, entries, strict=False)}
    is_clear = counted == sorted(counted)  # not 1, 10, 2: people count, and programs sort
    return found if is_clear and len(found) == len(ids) == len(entries) else {}


def _pieces(name: str) -> list[str | int]:
    return [int(piece) if piece.isdecimal() else piece for piece in re.split(r"(\d+)", name)]


def _by_key(entries: Sequence[_Entry], key: Callable[[_Entry], str | None]) -> dict[str, Path | str]:
    """Entries by one of their names, without names that several of them have."""
    keys = [key(entry) for entry in entries]
    counts = Counter(keys)
    return {
        name: entry.value
        for name, entry in zip(keys, entries, strict=True)
        if name is not None and counts[name] == 1
    }


def _refused(entries: Sequence[_Entry], ids: Sequence[str], count: int, beside: Beside) -> DataError:
    seen = next(iter(entries), _Entry("none"))
    example = seen.id or seen.name or "line 1"
    column = "path" if beside.kind == "images" else "text"
    return DataError(
        f"{beside.option}: {count:,} of {len(ids):,} rows match by id (rows: {ids[0]!r}, ...; {beside.kind}: "
        f"{example!r}, ...), and {len(entries):,} {beside.kind} cannot be matched with {len(all_ids(ids)):,} rows by "
        f"order{', since some match by id' if count else ''}; "
        f"give a CSV with the columns id and {column}{'' if has_own_ids(ids) else _NUMBERED}"
    )


def _number(name: str) -> str | None:
    return str(int(name)) if name.isdecimal() and len(name) < 19 else None


def _entries(beside: Beside) -> Iterator[_Entry]:
    path = beside.path.expanduser()
    if beside.kind == "images" and path.is_dir():
        for name in _image_names(path):
            yield _Entry(path / name, name=name)
    elif beside.kind == "texts" and path.suffix.lower() == ".txt":
        for line in read_text(path, limit=TEXT_BYTES).removesuffix("\n").split("\n"):
            yield _Entry(line.removesuffix("\r"))
    elif path.is_dir():
        raise DataError(f"{beside.option}: is a folder; give a .txt, .csv, .parquet or .jsonl file of texts")
    else:
        yield from _of_table(open_columns(path), beside)


def _image_names(folder: Path) -> list[str]:
    """The images below a folder, relative to it, by folder and then by name; hidden ones are ignored."""
    names = []
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        names += [Path(place, name).relative_to(folder) for name in files if not name.startswith(".")]
    images = [name for name in names if name.suffix.lower() in IMAGE_SUFFIXES]
    if not images:
        raise DataError(f"--images {folder}: no images in it ({', '.join(sorted(IMAGE_SUFFIXES))})")
    return [name.as_posix() for name in sorted(images, key=lambda name: name.parts)]


def _of_table(file: ColumnFile, beside: Beside) -> Iterator[_Entry]:
    role = "path" if beside.kind == "images" else "text"
    column = find_column(file.names, role, file.path)
    if column is None:
        raise DataError(
            f"{beside.option}: found the columns {listed(file.names)}; expected {role}, and id if the rows of the data "
            "have ids"
        )
    named = next((name for name in file.names if name.strip().lower() == "id"), None)
    wanted = [column] if named is None else [column, named]
    for number, cells in enumerate(file.rows(wanted), start=1):
        value, row_id = str(cells.get(column, "")), None if named is None else str(cells.get(named, ""))
        if beside.kind == "texts":
            yield _Entry(value, row_id)
        else:
            yield _Entry(_file(value, file.path, number), row_id, None if named else value)


def _file(name: str, table: Path, number: int) -> Path:
    """An image file that a table names, which must be below the table's folder or an allowed place."""
    file = table.parent / name
    if not stays_within(name, table.parent):
        raise DataError(
            f"{table}, row {number}: {name!r} is outside {table.parent}; {remedy(str(file.parent))}"
        )
    if not is_file(file):
        raise DataError(f"{table}, row {number}: no file {name[:200]!r} in {table.parent}; correct the path")
    return file
