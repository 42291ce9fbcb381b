"""Learned labels as a table: id, given, suggested, confidence, verdict; the whole distribution on request.

A run that somebody reviewed has one more column, ``decision``.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from pencil.algorithm import Rows, TopRows
from pencil.escape import spreadsheet_cell
from pencil.imports import need
from pencil.results.files import writing
from pencil.results.verdicts import KEEP, VERDICTS, VerdictRule

ENTRIES = 1 << 22  # probabilities written at once
DECIDED = {
    "accepted": "relabel",
    "changed": "relabel",
    "kept": "keep",
    "dropped": "drop",
}  # decision to verdict


@dataclass(frozen=True)
class LabelChunk:
    """Some rows' labels.

    Attributes:
        ids: What identifies each row.
        given: The name of the class that came with each row; () where rows came without.
        distribution: (B, C) float32, the belief about the true class; whole, or cut to its largest entries.
        trusted: (B,) bool, rows whose given label was known to be right; None for none.
        decisions: What somebody decided about each row, "" where nobody did; None for a run without a review.
    """

    ids: Sequence[str]
    given: Sequence[str]
    distribution: Rows
    trusted: Tensor | None = None
    decisions: Sequence[str] | None = None

    @property
    def num_classes(self) -> int:
        """C."""
        whole = self.distribution
        return whole.num_classes if isinstance(whole, TopRows) else whole.shape[1]

    def split(self, size: int) -> Iterator[LabelChunk]:
        """The chunk in chunks of at most ``size`` rows."""
        for rows in torch.arange(len(self.ids)).split(size):
            part = slice(int(rows[0]), int(rows[-1]) + 1)
            yield LabelChunk(
                self.ids[part],
                self.given[part],
                self.distribution[rows],
                None if self.trusted is None else self.trusted[rows],
                None if self.decisions is None else self.decisions[part],
            )

    def verdicts(self, class_names: Sequence[str], rule: VerdictRule | None = None) -> Tensor:
        """Indices into ``VERDICTS`` (B,) by the rule; a trusted row is kept however sure the belief is."""
        numbers = {name: index for index, name in enumerate(class_names)}
        # A class the model does not know is no class it could keep.
        given = torch.tensor([numbers.get(name, -1) for name in self.given])
        found = (rule or VerdictRule()).verdicts(self.distribution, given)
        return found if self.trusted is None else torch.where(self.trusted, KEEP, found)

    def verdict_names(self, class_names: Sequence[str]) -> list[str]:
        """Each row's verdict in a word, as somebody decided or else by the rule."""
        found = [VERDICTS[index] for index in self.verdicts(class_names).tolist()]
        decisions = self.decisions or [""] * len(found)
        return [DECIDED.get(decision, verdict) for verdict, decision in zip(found, decisions, strict=True)]


def write_labels(
    path: Path,
    chunks: Iterable[LabelChunk],
    class_names: Sequence[str],
    *,
    distribution: bool = False,
    spreadsheet: bool = False,
) -> int:
    """Write a label table as .csv or .parquet, by chunks; returns the number of rows.

    Args:
        path: The file.
        chunks: Rows in order.
        class_names: The classes, in the order of a distribution.
        distribution: Whether to write the probability of every class.
        spreadsheet: Of a .csv, whether cells that a spreadsheet would take for a formula are quoted. Their ids then do
            not come back as they were, so this is no default.
    """
    writers = {".csv": _write_csv, ".parquet": _write_parquet}
    size = max(1, ENTRIES // len(class_names))
    parts = (part for chunk in chunks for part in (chunk.split(size) if distribution else [chunk]))
    tables = (_columns(chunk, class_names, distribution) for chunk in parts)
    if spreadsheet and path.suffix.lower() == ".csv":
        tables = (_for_spreadsheet(table) for table in tables)
    with writing(path, *writers) as partial:
        return writers[path.suffix.lower()](partial, tables)


Columns = dict[str, Sequence[str | float]]


def _columns(chunk: LabelChunk, class_names: Sequence[str], distribution: bool) -> Columns:
    best = chunk.distribution.max(dim=1)
    columns: Columns = {"id": list(chunk.ids)}
    if chunk.given:
        columns["given_label"] = list(chunk.given)
    columns["suggested_label"] = [class_names[index] for index in best.indices.tolist()]
    columns["confidence"] = [round(value, 6) for value in best.values.tolist()]
    if chunk.given:
        columns["verdict"] = chunk.verdict_names(class_names)
    if chunk.decisions is not None:
        columns["decision"] = list(chunk.decisions)
    if distribution:
        whole = chunk.distribution
        probabilities = whole.dense() if isinstance(whole, TopRows) else whole
        for index, name in enumerate(class_names):
            columns[f"p_{name}"] = [round(value, 6) for value in probabilities[:, index].tolist()]
    return columns


def _for_spreadsheet(table: Columns) -> Columns:
    """The columns with names and texts as cells that are no formulas."""
    return {
        spreadsheet_cell(name): [
            spreadsheet_cell(value) if isinstance(value, str) else value for value in column
        ]
        for name, column in table.items()
    }


def _write_csv(path: Path, tables: Iterator[Columns]) -> int:
    count = 0
    # surrogateescape: an id may be a file's name that is not UTF-8
    with path.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file:
        writer = csv.writer(file)
        for table in tables:
            if count == 0:
                writer.writerow(table)
            rows = list(zip(*table.values(), strict=True))
            writer.writerows(rows)
            count += len(rows)
    return count


def _write_parquet(path: Path, tables: Iterator[Columns]) -> int:
    arrow = need("pyarrow", extra="tables", purpose="write Parquet")
    parquet = need("pyarrow.parquet", extra="tables", purpose="write Parquet")
    count, writer = 0, None
    for table in map(arrow.table, tables):
        writer = writer or parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
        count += table.num_rows
    if writer is not None:
        writer.close()
    return count
