"""Columns for people and programs: arrays by name, a data frame, and a short table in a notebook."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pencil.errors import did_you_mean
from pencil.escape import shown
from pencil.imports import need

ROWS_SHOWN = 10
Column = NDArray[Any]


class Table(Mapping[str, Column]):
    """Columns of equal length: a mapping from names to arrays, which a notebook shows as a table."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._columns = dict(columns)

    def __getitem__(self, name: str) -> Column:
        if name not in self._columns:
            raise KeyError(f"{name!r} is not a column{did_you_mean(name, self._columns)}")
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    @property
    def num_rows(self) -> int:
        """The length of every column."""
        return len(next(iter(self._columns.values()), ()))

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` (extra ``pandas``)."""
        pandas = need("pandas", extra="pandas", purpose="make a data frame")
        return pandas.DataFrame({name: pandas.Series(each, dtype=each.dtype) for name, each in self.items()})

    def __repr__(self) -> str:
        return f"Table({self.num_rows:,} rows: {', '.join(self)})"

    def _repr_html_(self) -> str:
        count = min(self.num_rows, ROWS_SHOWN)
        head = "".join(f"<th>{escaped(name)}</th>" for name in self)
        rows = ("".join(f"<td>{_cell(each[row])}</td>" for each in self.values()) for row in range(count))
        body = "".join(f"<tr>{cells}</tr>" for cells in rows)
        more = "" if count == self.num_rows else f"<p>{count} of {self.num_rows:,} rows</p>"
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def texts(values: Sequence[Any]) -> Column:
    """Values of any kind as an array of objects."""
    column = np.empty(len(values), dtype=object)  # texts of fixed width would lose NULs at the end
    column[:] = values
    return column


def _cell(value: Any) -> str:
    return escaped(f"{value:.4g}" if isinstance(value, float | np.floating) else str(value))


def escaped(words: str) -> str:
    """A name or an id for HTML, on one line."""
    return html.escape(shown(words))
