"""The rows of a manifest: columns found, cells parsed and checked, all problems collected."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pencil.data.readers.folder import TEST_SPLITS
from pencil.data.tables import ALIASES, Cells, csv_cells, find_column, listed, parquet_cells
from pencil.errors import DataError
from pencil.places import remedy, stays_within
from pencil.reading import is_file

_TRUTHS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False, "": False}
_VOTES = "votes_"
_SHOWN = 10
_ROLES = ("path", "label", "split", "trusted", "votes")


@dataclass(frozen=True)
class Row:
    """One example of the table. ``label`` is "" and ``votes`` is empty where the table has none."""

    path: str
    label: str
    votes: Mapping[str, float]
    split: str
    trusted: bool


@dataclass
class Problems:
    """Everything wrong with a table, raised together, or the rows it is wrong in."""

    path: Path
    found: list[tuple[int, str]] = field(default_factory=list)

    def add(self, row: int, column: str, text: str) -> None:
        """Note a problem."""
        self.found.append((row, f"row {row}, column {column!r}: {text}"))

    def check(self) -> None:
        """Raise all of them as one error."""
        if self.found:
            more = [f"and {len(self.found) - _SHOWN} more"] if len(self.found) > _SHOWN else []
            lines = "\n  ".join([*(text for _, text in self.found[:_SHOWN]), *more])
            raise DataError(
                f"{self.path}: fix the table (rows count from 1 below the header), or leave such rows out with "
                f"--set data.on_error=skip:\n  {lines}"
            )

    @property
    def by_row(self) -> dict[int, str]:
        """The first thing wrong with each row."""
        return dict(reversed(self.found))


def read_table(path: Path) -> list[dict[str, Any]]:
    """The rows by column, in which path and label have these names."""
    match path.suffix.lower():
        case ".csv":
            table = csv_cells(path)
        case ".parquet":
            table = parquet_cells(path, [*_ROLES, *ALIASES["path"], *ALIASES["label"]])
        case suffix:
            raise DataError(f"{path}: cannot read a table from {suffix!r}; use .csv or .parquet")
    if not table:
        raise DataError(
            f"{path}: the table has no rows; expected the columns path and label, and a row per image"
        )
    names = [name for name in table[0] if name is not None]
    found = {find_column(names, role, path): role for role in _ROLES}
    return [{found.get(name, name): value for name, value in cells.items()} for cells in table]


def parse_table(
    table: list[dict[str, Any]],
    folder: Path,
    class_names: Sequence[str] | None,
    allow: Sequence[str],
    problems: Problems,
) -> list[Row]:
    """Every row of the table; what is wrong with them is added to ``problems``."""
    _check_columns(table[0], problems.path)
    rows = [_parse_row(number, cells, class_names, problems) for number, cells in enumerate(table, start=1)]
    check_paths(rows, folder, allow, problems)
    if class_names is None:
        _check_lists(table, rows, problems)
    else:
        _check_classes(rows, class_index(tuple(class_names), given=True), problems)
    return rows


def _check_columns(cells: Cells, path: Path) -> None:
    columns = [name for name in cells if name is not None]
    votes = [name for name in columns if name.startswith(_VOTES)]
    if "path" not in columns or not has_labels(cells):
        raise DataError(
            f"{path}: found the columns {listed(columns)}; expected path and label (or votes): rename them"
            f"{_other_way(columns, path)}"
        )
    if isinstance(cells["path"], dict | bytes):
        raise DataError(f"{path}: column 'path' holds images, not their names{_other_way(['image'], path)}")
    if "votes" in columns and votes:
        raise DataError(
            f"{path}: votes are given twice, in the columns votes and {votes[0]}; keep one of them"
        )


def _other_way(columns: Sequence[str], path: Path) -> str:
    """What to do with a table that is not one of image files."""
    if path.suffix.lower() == ".parquet":
        inside = {"image", "img", "features", "embedding"} & {name.lower() for name in columns}
        return f"; to read its images or features run: pencil index {path} --out INDEX" if inside else ""
    return "; to train on numbers write an .npz with X and y"


def has_labels(cells: Cells) -> bool:
    """Whether the table has a column of labels or votes."""
    return any(name in ("label", "votes") or name.startswith(_VOTES) for name in cells if name is not None)


def _parse_row(number: int, cells: Cells, class_names: Sequence[str] | None, problems: Problems) -> Row:
    """One row; its problems are noted and parsing continues, so that later ones are found too."""
    if None in cells:
        problems.add(
            number, "path", "the row has more or fewer cells than the header; quote cells that contain commas"
        )
        return Row("", "", {}, "train", False)
    path, label, trusted = (cell_text(cells.get(column)) for column in ("path", "label", "trusted"))
    split = cell_text(cells.get("split", "train")).lower()
    if not path:
        problems.add(number, "path", "is empty")
    if split not in ("train", *TEST_SPLITS):
        problems.add(number, "split", f"{split!r} is none of train, {', '.join(TEST_SPLITS)}")
    if trusted.lower() not in _TRUTHS:
        problems.add(number, "trusted", f"{trusted!r} is none of true, false, 1, 0, yes, no")
    votes = _checked_votes(number, cells, class_names, problems)
    return Row(path, label, votes, split, _TRUTHS.get(trusted.lower(), False))


def _checked_votes(
    number: int, cells: Cells, class_names: Sequence[str] | None, problems: Problems
) -> dict[str, float]:
    try:
        votes = _votes(cells, class_names)
    except ValueError as error:
        problems.add(number, "votes", str(error))
        return {}
    if not votes and not cell_text(cells.get("label")):
        problems.add(number, "label", "is empty, and the row has no votes")
    return votes


def _votes(cells: Cells, class_names: Sequence[str] | None) -> dict[str, float]:
    """Counts by class; empty where the row has none. Raises ValueError for what is not a count."""
    cell = cells.get("votes")
    if isinstance(cell, list):
        names = class_names or [str(number) for number in range(len(cell))]
        if len(cell) != len(names):
            raise ValueError(f"{len(cell)} counts for {len(names)} class names")
        return _counts(zip(names, cell, strict=True))
    if cell is not None:
        return _counts(_pair(word) for word in str(cell).split())
    return _counts((name[len(_VOTES) :], value) for name, value in cells.items() if name.startswith(_VOTES))


def _pair(word: str) -> tuple[str, str]:
    """Class and count, separated by the last colon, since a class name may contain one."""
    name, colon, count = word.rpartition(":")
    if not colon or not name or not count:
        raise ValueError(f"{word!r} is not <class>:<count>")
    return name, count


def _counts(pairs: Iterable[tuple[str, Any]]) -> dict[str, float]:
    counts: dict[str, float] = {}
    for name, value in pairs:
        try:
            count = float(cell_text(value) or 0)
        except ValueError:
            count = math.nan
        if not 0 <= count < math.inf:
            raise ValueError(f"{value!r} for class {name!r} is not a count")
        counts[name] = counts.get(name, 0.0) + count
    return counts if any(counts.values()) else {}


def check_paths(rows: list[Row], folder: Path, allow: Sequence[str], problems: Problems) -> None:
    """Check that every file exists, is inside its folder and is named once: a path is its row's id."""
    first: dict[str, int] = {}
    for number, row in enumerate(rows, start=1):
        before = first.setdefault(row.path, number)
        if row.path and before != number:
            problems.add(
                number, "path", f"{row.path!r} is also in row {before}; write several labels as votes"
            )
        elif row.path and not stays_within(row.path, folder, allow):
            where = remedy(str(Path(os.path.normpath(folder.absolute() / row.path)).parent))
            problems.add(number, "path", f"{row.path!r} is outside {folder}; {where}")
        elif row.path and not is_file(folder / row.path):
            hint = "; paths are written with /" if "\\" in row.path else ""
            problems.add(number, "path", f"no file {row.path[:200]!r} in {folder}{hint}")


def _check_lists(table: list[dict[str, Any]], rows: list[Row], problems: Problems) -> None:
    """Lists of votes are by position, so without class names labels must be positions too."""
    width = next((len(cells["votes"]) for cells in table if isinstance(cells.get("votes"), list)), None)
    if width is None:
        return
    places = {"", *map(str, range(width))}
    for number, (cells, row) in enumerate(zip(table, rows, strict=True), start=1):
        votes = cells.get("votes")
        if isinstance(votes, list) and len(votes) != width:
            problems.add(number, "votes", f"{len(votes)} counts, where other rows have {width}")
        if row.label not in places:
            problems.add(
                number, "label", f"{row.label!r} is no position in a list of votes; give class_names"
            )


def cell_text(value: Any) -> str:
    """A cell as text; pandas writes missing values as None or NaN."""
    missing = value is None or (isinstance(value, float) and math.isnan(value))
    return "" if missing else str(value).strip()


def class_index(names: tuple[str, ...], *, given: bool) -> dict[str, int]:
    """Index by name. Given names can also be written as numbers, but a class named "3" keeps its name."""
    numbers = {str(number): number for number in range(len(names))} if given else {}
    return numbers | {name: number for number, name in enumerate(names)}


def _check_classes(rows: list[Row], index: Mapping[str, int], problems: Problems) -> None:
    for number, row in enumerate(rows, start=1):
        for column, names in (("label", [row.label] if row.label else []), ("votes", row.votes)):
            for name in names:
                if name not in index:
                    problems.add(number, column, f"{name!r} is neither in class_names nor an index into them")
