"""Labels of files of columns: from parsed rows to classes, given labels and splits.

N: rows. C: classes.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import torch

from pencil.data.columns import ColumnFile
from pencil.data.examples import Examples, RowNumbers, Splits, SubsetNames
from pencil.data.inputs import Inputs
from pencil.data.packed import PackedTexts
from pencil.data.readers.folder import TEST_SPLITS, warn_of_other_splits
from pencil.data.readers.rows import (
    VOTES,
    Problems,
    Row,
    by_role,
    cell_text,
    has_labels,
    has_other_cells,
    holds_labels,
    needed_columns,
    parse_row,
)
from pencil.data.tables import Cells, listed
from pencil.errors import DataError
from pencil.stores import GivenLabels

_MOST_VOTES = 1 << 28
"""The most rows times classes with votes: every row then holds a share of every class."""
MOST_CLASSES = 20
"""More classes than this, and than half of the rows, are a column of something else."""
_REMEDIES = {
    "id": "give each row its own id, or number the rows: --set 'data.columns.id=\"\"'",
    "path": "write several labels as votes",
}


def class_index(names: tuple[str, ...], *, given: bool) -> dict[str, int]:
    """Index by name. Given names can also be written as numbers, but a class named "3" keeps its name."""
    numbers = {str(number): number for number in range(len(names))} if given else {}
    return numbers | {name: number for number, name in enumerate(names)}


def class_names_of(rows: Sequence[Row], order: Sequence[str] = ()) -> tuple[str, ...]:
    """The classes that rows have: those in ``order`` first, then by name, numbers by value."""
    found = {name for row in rows for name in (row.label, *row.votes) if name}
    numbers = all(len(name) < 19 and name.removeprefix("-").isdecimal() for name in found)
    first = [name for name in order if name in found]
    return (
        *first,
        *sorted(found.difference(first), key=(lambda name: (int(name), name)) if numbers else str),
    )


def labels_of(rows: Sequence[Row], index: Mapping[str, int], classes: int, path: Path) -> GivenLabels:
    """Indices (N,), or distributions (N, C) as soon as one row has votes."""
    trusted = torch.tensor([row.trusted for row in rows]) if any(row.trusted for row in rows) else None
    by_votes = [bool(row.votes) and not (row.trusted and row.label) for row in rows]
    if not any(by_votes):
        return GivenLabels.of(torch.tensor([index[row.label] for row in rows]), classes, trusted)
    if len(rows) * classes > _MOST_VOTES:
        raise DataError(
            f"{path}: votes of {len(rows):,} rows for {classes:,} classes take too much memory; give labels, or fewer "
            "classes"
        )
    counts = torch.zeros(len(rows), classes)
    for number, row in enumerate(rows):
        for name, count in (row.votes if by_votes[number] else {row.label: 1.0}).items():
            counts[number, index[name]] += count
    return GivenLabels.of(counts, classes, trusted)


def splits_of(whole: Examples, splits: Sequence[str], path: Path, test_split: str | None = None) -> Splits:
    """The rows to train on and those to test on."""
    present = sorted(set(splits))
    for wanted in ("train", test_split):
        if wanted is not None and wanted not in present:
            raise DataError(f"{path}: no row has {wanted!r} in column 'split'; found {', '.join(present)}")
    if present == ["train"]:
        return Splits(whole)
    test = test_split or next(name for name in TEST_SPLITS if name in present)
    if test_split is None:
        others = {name: count for name, count in Counter(splits).items() if name not in ("train", test)}
        warn_of_other_splits(path, others, test)
    parts = [
        torch.tensor([row for row, name in enumerate(splits) if name == part]) for part in ("train", test)
    ]
    return Splits(*(whole.subset(indices) for indices in parts))


class Contents(Protocol):
    """What the rows of a file are made of, collected row by row."""

    @property
    def names(self) -> Sequence[str]:
        """The columns they are in."""

    def problem(self, cells: Cells) -> str | None:
        """What is wrong with a row, by column; None if it can be added."""

    def add(self, cells: Cells) -> None:
        """Add a row."""


class Labelled:
    """The labels of a file, collected row by row.

    Args:
        file: The file.
        roles: Roles by column.
        key: The role that identifies a row.
        class_names: (C,) the classes in order, if labels may only be these or their numbers.
    """

    def __init__(
        self,
        file: ColumnFile,
        roles: Mapping[str, str],
        key: str = "id",
        class_names: Sequence[str] | None = None,
    ) -> None:
        _check_labels(file, roles)
        self._file, self._roles, self._key = file, roles, key
        self._problems = Problems(file.path, roles=roles)
        self._order = next((file.classes[name] for name in file.classes if roles.get(name) == "label"), ())
        self._fixed = None if class_names is None else class_index(tuple(class_names), given=True)
        self._named = tuple(self._order if class_names is None else class_names) or None
        self._rows: list[Row] = []
        self._has_ids = key in roles.values()
        self._ids = PackedTexts()
        self._places = array("q")  # of the rows that were accepted
        self._first: dict[str, int] = {}
        self._number = 0
        self._votes = 0  # counts in a list of votes; 0 without lists, or with class names
        self._widths: Counter[int] = Counter()  # rows by the counts in their list

    def read(self, contents: Contents) -> None:
        """Read all rows, and collect what those that are accepted are made of."""
        where = next(iter(contents.names), "label")
        for cells in self._file.rows(needed_columns(self._file, self._roles, contents.names)):
            if self._accepts(cells, contents.problem(cells), where):
                contents.add(cells)

    def _accepts(self, named: Cells, wrong: str | None, where: str) -> bool:
        """Take a row; False if something is wrong with it."""
        cells = by_role(named, self._roles)
        self._number += 1
        before = len(self._problems.found)
        if wrong is not None and None not in cells:
            self._problems.add(self._number, where, wrong)
        row = parse_row(self._number, cells, where, self._named, self._problems)
        self._check_classes(row)
        self._check_width(cells.get("votes"))
        self._ids.append(self._id(cells))
        if len(self._problems.found) > before:
            return False
        self._rows.append(row)
        self._places.append(self._number - 1)
        return True

    def _check_classes(self, row: Row) -> None:
        for role, names in (("label", [row.label] if row.label else []), ("votes", row.votes)):
            for name in names:
                if self._fixed is not None and name not in self._fixed:
                    words = f"{name!r} is neither in class_names nor an index into them"
                    self._problems.add(self._number, role, words)

    @property
    def train_rows(self) -> list[int]:
        """The rows to train on, among those that ``add`` accepted."""
        return [number for number, row in enumerate(self._rows) if row.split == "train"]

    def _check_width(self, votes: Any) -> None:
        """Without class names, lists of votes are by position, so that all have as many counts."""
        if self._named or not votes or not isinstance(votes, list):
            return
        self._votes = self._votes or len(votes)
        self._widths[len(votes)] += 1
        if len(votes) != self._votes:
            self._problems.add(
                self._number, "votes", f"{len(votes)} counts, where other rows have {self._votes}"
            )

    def _check_positions(self, names: Sequence[str]) -> None:
        """Labels beside lists of votes by position are positions too."""
        places = set(map(str, range(self._votes)))
        stray = next((name for name in names if name not in places), None)
        if self._votes and stray is not None:
            raise DataError(
                f"{self._problems.path}: the class {stray!r} is no position in the lists of votes, which have "
                f"{self._votes} counts; write the votes with their classes, such as 'cat:3 dog:1'"
            )

    def _id(self, cells: Cells) -> str:
        if not self._has_ids:
            return ""
        name = cell_text(cells.get(self._key))
        before = self._first.setdefault(name, self._number)
        if not name and self._key == "id":
            self._problems.add(self._number, "id", f"is empty; {_REMEDIES['id']}")
        elif name and before != self._number:
            words = f"{name!r} is also in row {before}; {_REMEDIES[self._key]}"
            self._problems.add(self._number, self._key, words)
        return name

    @property
    def ids(self) -> Sequence[str]:
        """What identifies each accepted row."""
        accepted = torch.frombuffer(self._places, dtype=torch.int64).clone()
        return SubsetNames(self._ids if self._has_ids else RowNumbers(self._number), accepted)

    def check(self, on_error: str) -> None:
        """Raise an error if no row was accepted or, with "error", if one was not.

        Also if most lists of votes differ from the first one, so that one odd row does not leave out all others.
        """
        usual = max(self._widths, key=self._widths.__getitem__, default=0)
        if self._widths[self._votes] < self._widths[usual]:
            raise DataError(
                f"{self._file.path}: the first list of votes has {self._votes} counts, most others have {usual}; "
                "fix or remove that row"
            )
        if on_error == "error" or not self._rows:
            self._problems.check()
        if not self._rows:
            raise DataError(
                f"{self._file.path}: the table has no rows; expected a row per example below the header"
            )

    def splits(self, inputs: Inputs, on_error: str, test_split: str | None = None) -> Splits:
        """The examples with these inputs, one for each accepted row."""
        self.check(on_error)
        path = self._file.path
        index = self._fixed
        if index is None:
            names = class_names_of(self._rows, self._order)
            self._check_positions(names)
            self._check_number(names)
            index = class_index(names, given=False)
        else:
            assert self._named is not None
            names = self._named
        labels = labels_of(self._rows, index, len(names), path)
        whole = Examples(inputs, labels, names, self.ids)
        bad = self._problems.by_row
        skipped = {f"row {number}": bad[number] for number in sorted(bad)}
        return replace(
            splits_of(whole, [row.split for row in self._rows], path, test_split), skipped_rows=skipped
        )

    def _check_number(self, names: Sequence[str]) -> None:
        if len(names) > max(MOST_CLASSES, len(self._rows) // 2):
            raise DataError(
                f"{self._file.path}: the labels have {len(names):,} different values in {len(self._rows):,} rows, so "
                "they are not classes; name another column: --set data.columns.label=NAME"
            )


def _check_labels(file: ColumnFile, roles: Mapping[str, str]) -> None:
    """Check that there is one column of labels, votes, or votes by class."""
    named = by_role(dict.fromkeys(file.names), roles)
    if not has_labels(named):
        raise DataError(
            f"{file.path}: found the columns {listed(file.names)}, and none of labels; name it: "
            "--set data.columns.label=NAME (the first line must hold the names)"
        )
    by_class = [name for name in named if name.startswith(VOTES)]
    if "votes" in named and by_class:
        raise DataError(
            f"{file.path}: votes are given twice, in the columns votes and {by_class[0]}; keep one of them"
        )


def read_unlabelled(
    file: ColumnFile, roles: Mapping[str, str], contents: Contents, key: str = "id"
) -> Sequence[str] | None:
    """Collect the rows of a file without labels; returns their ids, or None of a file with labels."""
    if holds_labels(file, roles):
        return None
    where, problems = next(iter(contents.names), key), Problems(file.path, can_skip=False, roles=roles)
    ids = PackedTexts()
    for number, cells in enumerate(file.rows(needed_columns(file, roles, contents.names)), start=1):
        if has_other_cells(cells, number, where, problems):
            continue
        wrong = contents.problem(cells)
        if wrong is not None:
            problems.add(number, where, wrong)
            continue
        contents.add(cells)
        ids.append(cell_text(by_role(cells, roles).get(key)))
    problems.check()
    return ids if key in roles.values() else RowNumbers(len(ids))
