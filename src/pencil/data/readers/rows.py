"""Rows of files of columns: which column has which role, and each row parsed and checked, all problems collected.

Columns: ``label``; optional ``split``, ``trusted``, and votes as ``votes`` ("cat:3 dog:2", in Parquet also a list of
counts) or as one column ``votes_<class>`` per class.

C: classes.
"""

from __future__ import annotations

import contextlib
import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pencil.data.columns import ColumnFile
from pencil.data.readers.folder import TEST_SPLITS
from pencil.data.tables import Cells, find_column
from pencil.errors import ConfigError, DataError

LABEL_ROLES = ("label", "split", "trusted", "votes")
VOTES = "votes_"
UNUSED = "unused"
"""The role of a column whose own name is a role that is left out."""
_TRUTHS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False, "": False}
_SHOWN = 10
_NONE: Mapping[str, float] = {}


@dataclass(frozen=True, slots=True)
class Row:
    """What a row says about its class. ``label`` is "" and ``votes`` is empty where the table has none.

    Attributes:
        label: The name of its class.
        votes: Votes by class.
        split: train, test, ...
        trusted: Whether the label is verified.
    """

    label: str
    votes: Mapping[str, float]
    split: str
    trusted: bool


@dataclass
class Problems:
    """Everything wrong with a table, raised together, or the rows it is wrong in.

    ``can_skip``: Whether such rows may be left out instead.
    ``roles``: Roles by column; messages name the column.
    """

    path: Path
    found: list[tuple[int, str]] = field(default_factory=list)
    can_skip: bool = True
    roles: Mapping[str, str] = field(default_factory=dict)

    def add(self, row: int, role: str, text: str) -> None:
        """Note a problem."""
        column = next((name for name, known in self.roles.items() if known == role), role)
        self.found.append((row, f"row {row}, column {column!r}: {text}"))

    def check(self) -> None:
        """Raise all of them as one error."""
        if self.found:
            more = [f"and {len(self.found) - _SHOWN} more"] if len(self.found) > _SHOWN else []
            lines = "\n  ".join([*(text for _, text in self.found[:_SHOWN]), *more])
            skip = ", or leave such rows out with --set data.on_error=skip" if self.can_skip else ""
            raise DataError(
                f"{self.path}: fix the table (rows count from 1 below the header){skip}:\n  {lines}"
            )

    @property
    def by_row(self) -> dict[int, str]:
        """The first thing wrong with each row."""
        return dict(reversed(self.found))


def find_roles(
    file: ColumnFile, roles: Sequence[str], asked: Mapping[str, str], *, needs_label: bool = True
) -> dict[str, str]:
    """Roles by column, for those that the file has or ``data.columns`` names; columns of votes by class have none.

    Args:
        file: The file.
        roles: Those to look for.
        asked: Columns by role, as ``data.columns`` names them; an empty name leaves a role out.
        needs_label: Whether the file must have all columns that are asked for; one to predict may lack those of labels,
            splits, trust and votes.
    """
    unknown = next((role for role in asked if role not in roles), None)
    if unknown is not None:
        raise ConfigError(f"data.columns.{unknown}: no such role; use {', '.join(roles)}")
    if not needs_label:
        there = ("", *file.names)
        asked = {role: name for role, name in asked.items() if role not in LABEL_ROLES or name in there}
    found = {role: find_column(file.names, role, file.path, asked) for role in roles}
    left_out = {role: UNUSED for role, name in asked.items() if not name and role in file.names}
    return left_out | {name: role for role, name in reversed(found.items()) if name is not None}


def needed_columns(file: ColumnFile, roles: Mapping[str, str], more: Sequence[str] = ()) -> list[str]:
    """The columns with a role, those of votes by class, and some more."""
    return [name for name in file.names if name in roles or name.startswith(VOTES) or name in more]


def by_role(cells: Cells, roles: Mapping[str, str]) -> dict[Any, Any]:
    """A row whose columns have the names of their roles; a role that is given to another column is not a name."""
    taken = set(roles.values())
    return {
        roles.get(name, name): value for name, value in cells.items() if name in roles or name not in taken
    }


def has_labels(cells: Cells) -> bool:
    """Whether the table has a column of labels or votes."""
    return any(name in ("label", "votes") or name.startswith(VOTES) for name in cells if name is not None)


def holds_labels(file: ColumnFile, roles: Mapping[str, str]) -> bool:
    """Whether a row of a file to predict has a label or votes; columns that are empty throughout hold none."""
    if not has_labels(by_role(dict.fromkeys(file.names), roles)):
        return False
    columns = [name for name in needed_columns(file, roles) if roles.get(name, "votes") in ("label", "votes")]
    with contextlib.closing(file.rows(columns)) as rows:
        return any(_is_labelled(by_role(cells, roles)) for cells in rows)


def _is_labelled(cells: Cells) -> bool:
    try:
        return bool(_label(cells, None) or _votes(cells, None))
    except ValueError:  # what is no count is reported when rows with labels are read
        return True


def parse_row(
    number: int, cells: Cells, where: str, class_names: Sequence[str] | None, problems: Problems
) -> Row:
    """One row; its problems are noted and parsing continues, so that later ones are found too.

    Args:
        number: From 1.
        cells: By role.
        where: The column that a row with too many cells is reported for.
        class_names: (C,) where they are given.
        problems: Gets what is wrong.
    """
    if has_other_cells(cells, number, where, problems):
        return Row("", _NONE, "train", trusted=False)
    trusted = cell_text(cells.get("trusted")).lower()
    split = cell_text(cells.get("split", "train")).lower()
    if split not in ("train", *TEST_SPLITS):
        problems.add(number, "split", f"{split!r} is none of train, {', '.join(TEST_SPLITS)}")
    if trusted not in _TRUTHS:
        problems.add(number, "trusted", f"{trusted!r} is none of true, false, 1, 0, yes, no")
    _check_one_label(number, cells, problems)
    votes, label = _checked_votes(number, cells, class_names, problems), _label(cells, class_names)
    # Interned: many rows share few labels.
    return Row(sys.intern(label), votes or _NONE, sys.intern(split), _TRUTHS.get(trusted, False))


def _check_one_label(number: int, cells: Cells, problems: Problems) -> None:
    label = _only(cells.get("label"))
    if isinstance(label, list | dict):
        remedy = "give one label per row, or counts in a column votes, such as cat:2 dog:1"
        problems.add(number, "label", f"holds several labels, {str(label)[:80]}; {remedy}")


def _only(label: Any) -> Any:
    """The label of a list that holds one, and None of an empty list; anything else as it is."""
    if isinstance(label, list | dict) and not label:
        return None
    return label[0] if isinstance(label, list) and len(label) == 1 else label


def _checked_votes(
    number: int, cells: Cells, class_names: Sequence[str] | None, problems: Problems
) -> dict[str, float]:
    try:
        votes = _votes(cells, class_names)
    except ValueError as error:
        problems.add(number, "votes", str(error))
        return {}
    if not votes and not _label(cells, class_names):
        problems.add(number, "label", "is empty, and the row has no votes")
    return votes


def _label(cells: Cells, class_names: Sequence[str] | None) -> str:
    """The name of a row's class; "" for a missing one, which numpy writes as nan."""
    label = cell_text(_only(cells.get("label")))
    return "" if label.lower() == "nan" and label not in (class_names or ()) else label


def _votes(cells: Cells, class_names: Sequence[str] | None) -> dict[str, float]:
    """Counts by class; empty where the row has none. Raises ValueError for what is not a count."""
    cell = cells.get("votes")
    if isinstance(cell, list):
        if not cell:
            return {}
        names = class_names or [str(number) for number in range(len(cell))]
        if len(cell) != len(names):
            raise ValueError(f"{len(cell)} counts for {len(names)} class names")
        return _counts(zip(names, cell, strict=True))
    if cell is not None:
        return _counts(_pair(word) for word in str(cell).split())
    # In a row with too many cells one column is None.
    by_class = ((str(name), value) for name, value in cells.items())
    return _counts((name[len(VOTES) :], value) for name, value in by_class if name.startswith(VOTES))


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


def has_other_cells(cells: Mapping[Any, Any], number: int, column: str, problems: Problems) -> bool:
    """Whether a row has more or fewer cells than the header; then the problem is noted."""
    if None not in cells:
        return False
    words = "the row has more or fewer cells than the header; quote cells that contain the separator"
    problems.add(number, column, words)
    return True


_HALVES = re.compile("[\ud800-\udc7f\udd00-\udfff]")
"""Halves of characters that JSON can write alone. The others stand for bytes of file names that are not UTF-8."""


def cell_text(value: Any) -> str:
    """A cell as text; pandas writes missing values as None or NaN."""
    missing = value is None or (isinstance(value, float) and math.isnan(value))
    return "" if missing else _HALVES.sub("\ufffd", str(value).strip())
