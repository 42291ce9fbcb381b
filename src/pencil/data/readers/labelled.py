"""Labels of files of columns: from parsed rows to classes, given labels and splits.

N: rows. C: classes.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from pencil.data.columns import ColumnFile
from pencil.data.examples import Examples, RowNumbers, Splits, SubsetNames
from pencil.data.inputs import Inputs
from pencil.data.packed import PackedTexts
from pencil.data.readers.folder import TEST_SPLITS, warn_of_other_splits
from pencil.data.readers.rows import Problems, Row, by_role, cell_text, parse_row
from pencil.data.tables import Cells
from pencil.errors import DataError
from pencil.stores import GivenLabels

_MOST_VOTES = 1 << 28
"""The most rows times classes with votes: every row then holds a share of every class."""
MOST_CLASSES = 20
"""More classes than this, and than half of the rows, are a column of something else."""
_IDS = "give each row its own id, or number the rows: --set 'data.columns.id=\"\"'"


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


class Labelled:
    """The labels of a file, collected row by row; what the rows are made of is collected elsewhere.

    Args:
        file: The file.
        roles: Roles by column.
        content: The role that must not be empty; None for none.
    """

    def __init__(self, file: ColumnFile, roles: Mapping[str, str], content: str | None = None) -> None:
        self._problems = Problems(file.path, roles=roles)
        self._order = next((file.classes[name] for name in file.classes if roles.get(name) == "label"), ())
        self._roles = roles
        self._content = content
        self._rows: list[Row] = []
        self._has_ids = "id" in roles.values()
        self._ids = PackedTexts()
        self._places = array("q")  # of the rows that were accepted
        self._first: dict[str, int] = {}
        self._number = 0
        self._votes = 0  # counts in a list of votes; 0 without lists, or with class names
        self._widths: Counter[int] = Counter()  # rows by the counts in their list

    def add(self, cells: Cells, features: str | None = None) -> Row | None:
        """Take a row; None if something is wrong with it, such as its ``features``."""
        cells = by_role(cells, self._roles)
        self._number += 1
        before = len(self._problems.found)
        if features is not None:
            self._problems.add(self._number, "features", features)
        row = parse_row(self._number, cells, self._content, self._order or None, self._problems)
        self._check_width(cells.get("votes"))
        self._ids.append(self._id(cells))
        if len(self._problems.found) > before:
            return None
        self._rows.append(replace(row, content=""))  # it is kept elsewhere
        self._places.append(self._number - 1)
        return row

    @property
    def train_rows(self) -> list[int]:
        """The rows to train on, among those that ``add`` accepted."""
        return [number for number, row in enumerate(self._rows) if row.split == "train"]

    def _check_width(self, votes: Any) -> None:
        """Without class names, lists of votes are by position, so that all have as many counts."""
        if self._order or not votes or not isinstance(votes, list):
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
        name = cell_text(cells.get("id"))
        before = self._first.setdefault(name, self._number)
        if not name or before != self._number:
            words = f"{name!r} is also in row {before}" if name else "is empty"
            self._problems.add(self._number, "id", f"{words}; {_IDS}")
        return name

    def check(self, on_error: str) -> None:
        """Raise an error if no row was accepted or, with "error", if one was not.

        Also if most lists of votes differ from the first one, so that one odd row does not leave out all others.
        """
        if on_error == "error" or not self._rows:
            self._problems.check()
        usual = max(self._widths, key=self._widths.__getitem__, default=0)
        if self._widths[self._votes] < self._widths[usual]:
            raise DataError(
                f"{self._problems.path}: the first list of votes has {self._votes} counts, most others have {usual}; "
                "fix or remove that row"
            )
        if not self._rows:
            raise DataError(
                f"{self._problems.path}: the table has no rows; expected a row per example below the header"
            )

    def splits(self, inputs: Inputs, on_error: str) -> Splits:
        """The examples with these inputs, one for each row that ``add`` accepted."""
        self.check(on_error)
        path = self._problems.path
        names = class_names_of(self._rows, self._order)
        self._check_positions(names)
        if len(names) > max(MOST_CLASSES, len(self._rows) // 2):
            raise DataError(
                f"{path}: the labels have {len(names):,} different values in {len(self._rows):,} rows, so they are not "
                "classes; name another column: --set data.columns.label=NAME"
            )
        labels = labels_of(self._rows, class_index(names, given=False), len(names), path)
        accepted = torch.frombuffer(self._places, dtype=torch.int64).clone()
        ids = SubsetNames(self._ids if self._has_ids else RowNumbers(self._number), accepted)
        whole = Examples(inputs, labels, names, ids)
        bad = self._problems.by_row
        skipped = {f"row {number}": bad[number] for number in sorted(bad)}
        return replace(splits_of(whole, [row.split for row in self._rows], path), skipped_rows=skipped)
