"""Learned labels as a table: id, given, suggested, confidence, verdict; the whole distribution on request."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from pencil.algorithm import Rows, TopRows
from pencil.errors import need
from pencil.results.files import writing
from pencil.results.verdicts import VERDICTS, VerdictRule

ENTRIES = 1 << 22  # probabilities written at once


@dataclass(frozen=True)
class LabelChunk:
    """Some rows' labels.

    Attributes:
        ids: What identifies each row.
        given: The name of the class that came with each row.
        distribution: (B, C) float32, the belief about the true class; whole, or cut to its largest entries.
    """

    ids: Sequence[str]
    given: Sequence[str]
    distribution: Rows

    def split(self, size: int) -> Iterator[LabelChunk]:
        """The chunk in chunks of at most ``size`` rows."""
        for rows in torch.arange(len(self.ids)).split(size):
            part = slice(int(rows[0]), int(rows[-1]) + 1)
            yield LabelChunk(self.ids[part], self.given[part], self.distribution[rows])


def write_labels(
    path: Path, chunks: Iterable[LabelChunk], class_names: Sequence[str], *, distribution: bool = False
) -> int:
    """Write a label table as .csv or .parquet, by chunks; answers with the number of rows."""
    writers = {".csv": _write_csv, ".parquet": _write_parquet}
    size = max(1, ENTRIES // len(class_names))
    parts = (part for chunk in chunks for part in (chunk.split(size) if distribution else [chunk]))
    tables = (_columns(chunk, class_names, distribution) for chunk in parts)
    with writing(path, *writers) as partial:
        return writers[path.suffix.lower()](partial, tables)


Columns = dict[str, list[str] | list[float]]


def _columns(chunk: LabelChunk, class_names: Sequence[str], distribution: bool) -> Columns:
    best = chunk.distribution.max(dim=1)
    columns: Columns = {
        "id": list(chunk.ids),
        "given_label": list(chunk.given),
        "suggested_label": [class_names[index] for index in best.indices.tolist()],
        "confidence": [round(value, 6) for value in best.values.tolist()],
        "verdict": _verdicts(chunk, class_names),
    }
    if distribution:
        whole = chunk.distribution
        probabilities = whole.dense() if isinstance(whole, TopRows) else whole
        for index, name in enumerate(class_names):
            columns[f"p_{name}"] = [round(value, 6) for value in probabilities[:, index].tolist()]
    return columns


def _verdicts(chunk: LabelChunk, class_names: Sequence[str]) -> list[str]:
    numbers = {name: index for index, name in enumerate(class_names)}
    # A class the model does not know is no class it could keep.
    given = torch.tensor([numbers.get(name, -1) for name in chunk.given])
    return [VERDICTS[index] for index in VerdictRule().verdicts(chunk.distribution, given).tolist()]


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
