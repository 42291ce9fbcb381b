"""What a file of columns holds: image files, texts, feature lists or a table, by its header and its first rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pencil.data.columns import ColumnFile, open_columns
from pencil.data.tables import ALIASES, Cells
from pencil.errors import DataError
from pencil.reading import is_file

Holds = Literal["manifest", "text", "features", "table"]
_TEXT_WORDS = 4
"""A column whose cells have this many words on average, most of them different, is a column of texts."""
_DIFFERENT = 0.5
_NUMBERS = 2
"""With more columns of numbers than this, a column of texts is a note beside them, unless its name says otherwise."""


def holds(path: Path) -> Holds:
    """What a file of columns holds; a file that cannot be read counts as a manifest, whose reader says why."""
    try:
        stat = path.stat()
        return _holds(path, stat.st_mtime_ns, stat.st_size)
    except (DataError, OSError):
        return "manifest"


@lru_cache(maxsize=16)
def _holds(path: Path, _changed: int, _size: int) -> Holds:
    file = open_columns(path)
    head = file.head()
    paths, texts = named(file.names, "path"), named(file.names, "text")
    if paths and not (texts and not _is_file(path, head, paths[0])):
        return "manifest"
    if any(_is_list(head, name) for name in named(file.names, "features")):
        return "features"
    numbers = [name for name in file.names if is_numeric(_values(head, name))]
    found = text_column(file, head)
    return "text" if found in texts or (found is not None and len(numbers) <= _NUMBERS) else "table"


def text_column(file: ColumnFile, head: Sequence[Cells]) -> str | None:
    """The column of texts: one that is called so, or the only one with long and different cells; None without one."""
    called = [name for name in named(file.names, "text") if not is_numeric(_values(head, name))]
    if called:
        return called[0]
    labels = named(file.names, "label")
    long = [name for name in file.names if name not in labels and is_text(_values(head, name))]
    return long[0] if len(long) == 1 else None


def named(names: Iterable[str], role: str) -> list[str]:
    """The columns whose name fits a role."""
    return [name for name in names if name.strip().lower() in ALIASES[role]]


def is_text(values: Sequence[Any]) -> bool:
    """Whether cells are texts: several words each, most of them different."""
    texts = [value for value in values if isinstance(value, str)]
    if not texts or len(texts) < len(values) / 2:
        return False
    words = sum(len(text.split()) for text in texts) / len(texts)
    return words >= _TEXT_WORDS and len(set(texts)) > _DIFFERENT * len(texts)


def is_numeric(values: Sequence[Any]) -> bool:
    """Whether all cells are numbers, and there are some."""
    return bool(values) and all(is_number(value) for value in values)


def is_number(value: Any) -> bool:
    """Whether a cell is a number or the text of one."""
    if isinstance(value, int | float):
        return True
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _values(head: Sequence[Cells], name: str) -> list[Any]:
    return [value for cells in head if (value := cells.get(name)) is not None and value != ""]


def _is_list(head: Sequence[Cells], name: str) -> bool:
    return any(isinstance(value, list) for value in _values(head, name))


def _is_file(path: Path, head: Sequence[Cells], name: str) -> bool:
    """Whether the first cell of a column is the name of a file."""
    first = next((str(value) for value in _values(head, name)), "")
    return is_file(path.parent / first)
