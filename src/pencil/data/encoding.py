"""Columns of a table as numbers: fitted once on the rows to train on, and the same for every row after that.

Numbers are standardised, and a missing one is the mean. A category is one feature for each of its values, and rare
values share one. Where values are missing, a feature says so.

N: rows. D: features.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pencil.data.recognise import is_text
from pencil.errors import DataError

MISSING = frozenset(("", "na", "n/a", "nan", "null", "<na>", "?"))
"""What a missing value may be written as, in any case."""
MOST_VALUES = 32
"""The most features of a category."""
LEAST_ROWS = 2
"""Values with fewer rows are rare."""
_COUNTED = 10_000  # different values of one column that are counted before counting stops
_SAMPLE = 200
Cells = Sequence[str]


@dataclass(frozen=True)
class ColumnEncoding:
    """How one column becomes features.

    Attributes:
        name: The column.
        ignored: Why it is not used; empty if it is.
        mean: Of a number.
        scale: The standard deviation of a number; 0 for a category.
        values: The values of a category that have features of their own.
        other: Whether all other values share a feature.
        missing: Whether a feature says that the value is missing.
    """

    name: str
    ignored: str = ""
    mean: float = 0.0
    scale: float = 0.0
    values: tuple[str, ...] = ()
    other: bool = False
    missing: bool = False

    @property
    def size(self) -> int:
        """The number of features."""
        own = 0 if self.ignored else 1 if self.scale else len(self.values) + self.other
        return own + (self.missing and not self.ignored)

    def encode(self, cells: Cells, first_row: int) -> NDArray[np.float32]:
        """Features (N, size) of the cells (N,) of rows whose numbers begin at ``first_row``."""
        gone = np.array([is_missing(cell) for cell in cells])
        own = self._numbers(cells, gone, first_row) if self.scale else self._categories(cells, gone)
        return np.concatenate([own, gone[:, None]], axis=1).astype(np.float32)[:, : self.size]

    def _numbers(self, cells: Cells, gone: NDArray[np.bool_], first_row: int) -> NDArray[np.float64]:
        values = np.full(len(cells), self.mean)
        for place in np.flatnonzero(~gone).tolist():
            number = number_of(cells[place])
            if number is None:
                raise DataError(
                    f"row {first_row + place}, column {self.name!r}: {cells[place][:80]!r} is not a number; fix it"
                )
            values[place] = number
        return ((values - self.mean) / self.scale)[:, None]

    def _categories(self, cells: Cells, gone: NDArray[np.bool_]) -> NDArray[np.float64]:
        place = {value: number for number, value in enumerate(self.values)}
        features = np.zeros((len(cells), len(self.values) + self.other))
        for row in np.flatnonzero(~gone).tolist():
            column = place.get(cells[row], len(self.values))
            if column < features.shape[1]:
                features[row, column] = 1
        return features


@dataclass
class _Seen:
    """What the cells of one column are, collected block by block."""

    rows: int = 0
    missing: int = 0
    numbers: int = 0
    mean: float = 0.0
    squares: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    sample: list[str] = field(default_factory=list)

    def add(self, cells: Cells) -> None:
        there = [cell for cell in cells if not is_missing(cell)]
        self.rows += len(cells)
        self.missing += len(cells) - len(there)
        self.sample += there[: max(0, _SAMPLE - len(self.sample))]
        if len(self.counts) <= _COUNTED:
            self.counts.update(there)
        if self.numbers + self.missing + len(there) == self.rows:  # all were numbers so far
            values = [number for cell in there if (number := number_of(cell)) is not None]
            self._add_numbers(np.array(values, np.float64))

    def _add_numbers(self, values: NDArray[np.float64]) -> None:
        """Mean and sum of squared distances of two groups of numbers, from those of each; not finite if too large."""
        if not len(values):
            return
        before, self.numbers = self.numbers, self.numbers + len(values)
        with np.errstate(over="ignore", invalid="ignore"):
            apart = float(values.mean()) - self.mean
            self.squares += float(((values - values.mean()) ** 2).sum())
        # Not apart**2, which may raise OverflowError.
        self.squares += apart * (apart * before * len(values) / self.numbers)
        self.mean += apart * len(values) / self.numbers

    def encoding(self, name: str) -> ColumnEncoding:
        missing = 0 < self.missing < self.rows
        if len(self.counts) < 2 and not (self.counts and missing):
            return ColumnEncoding(name, ignored="constant" if self.counts else "empty")
        if self.numbers + self.missing == self.rows and math.isfinite(self.squares):
            return self._number(name, missing)
        many = len(self.counts) > max(MOST_VALUES, 0.5 * (self.rows - self.missing))
        if many or len(self.counts) > _COUNTED:
            return ColumnEncoding(name, ignored="text" if is_text(self.sample) else "ids")
        return self._category(name, missing)

    def _number(self, name: str, missing: bool) -> ColumnEncoding:
        scale = math.sqrt(self.squares / self.numbers)
        first = int(float(self.sample[0]))
        counted = [float(row) for row in range(first, first + len(self.sample))]
        if (
            self.rows > 2
            and self.numbers == self.rows
            and first in (0, 1)
            and list(map(float, self.sample)) == counted
        ):
            return ColumnEncoding(name, ignored="row numbers")
        return ColumnEncoding(name, mean=self.mean, scale=scale or 1.0, missing=missing)

    def _category(self, name: str, missing: bool) -> ColumnEncoding:
        common = [value for value, count in self.counts.most_common(MOST_VALUES) if count >= LEAST_ROWS]
        return ColumnEncoding(
            name, values=tuple(sorted(common)), other=len(common) < len(self.counts), missing=missing
        )


def fit(names: Sequence[str], blocks: Iterable[Sequence[Cells]]) -> tuple[ColumnEncoding, ...]:
    """Encodings of columns from blocks of rows, each row with a cell for each name."""
    seen = [_Seen() for _ in names]
    for block in blocks:
        for column, cells in zip(seen, zip(*block, strict=True), strict=True):
            column.add(cells)
    return tuple(column.encoding(name) for name, column in zip(names, seen, strict=True))


def encode(
    encodings: Sequence[ColumnEncoding],
    names: Sequence[str],
    blocks: Callable[[], Iterator[Sequence[Cells]]],
    rows: int,
) -> NDArray[np.float32]:
    """Features (N, D) of all rows, which have a cell for each name."""
    used = [encoding for encoding in encodings if not encoding.ignored]
    values = np.zeros((rows, sum(encoding.size for encoding in used)), np.float32)
    start = 0
    for block in blocks():
        columns = dict(zip(names, zip(*block, strict=True), strict=True))
        parts = [encoding.encode(columns[encoding.name], start + 1) for encoding in used]
        values[start : start + len(block)] = np.concatenate(parts, axis=1)
        start += len(block)
    return values


def words(encodings: Sequence[ColumnEncoding]) -> str:
    """One line about what becomes of the columns."""
    used = [each for each in encodings if not each.ignored]
    numbers, categories = [each for each in used if each.scale], [each for each in used if not each.scale]
    parts = [f"{len(numbers)} numbers standardised", f"{len(categories)} categories as 0 and 1"]
    if gaps := [each.name for each in used if each.missing]:
        parts.append(f"missing values in {_few(gaps)} as the mean or none, with an indicator")
    if ignored := [f"{each.name} ({each.ignored})" for each in encodings if each.ignored]:
        parts.append(f"not used: {_few(ignored)}")
    return f"{sum(each.size for each in used)} features: {'; '.join(parts)}"


def is_missing(cell: str) -> bool:
    """Whether a cell has no value."""
    return cell.lower() in MISSING


def number_of(cell: str) -> float | None:
    """The number that a cell is; None for anything else, and for infinity."""
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _few(names: Sequence[str], most: int = 8) -> str:
    more = [f"and {len(names) - most} more"] if len(names) > most else []
    return ", ".join([*names[:most], *more])
