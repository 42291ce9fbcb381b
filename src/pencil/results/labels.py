"""Labels as a table: id, given, suggested, confidence, p_wrong and verdict; optionally the whole distribution.

The table of a reviewed run has another column, ``decision``, and a column ``label`` holds the labels to use, if they
are asked for. If the rows were compared with each other, ``duplicates`` is the number of the group of near-identical
rows, and ``outlier`` how many times farther from its neighbours an outlier is than the median row.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from pencil.algorithm import TopRows
from pencil.belief import NO_CLASS
from pencil.escape import spreadsheet_cell, utf8
from pencil.imports import need
from pencil.results.files import writing
from pencil.results.judged import DECISIONS, VERDICTS, Judged, Take
from pencil.results.neighbours import NO_GROUP

ENTRIES = 1 << 22  # probabilities written at once
TYPES = dict.fromkeys(("id", "label", "given_label", "suggested_label", "verdict", "decision"), "string") | {
    "duplicates": "int64"
}
"""The types of columns in Parquet, which a chunk may not show, as it has no rows or gaps alone; others are float64."""


@dataclass(frozen=True)
class LabelRow:
    """The result for one example, with class names.

    Attributes:
        id: The example's id in the data set.
        given: The name of the given class.
        suggested: The name of the most likely class.
        confidence: Its probability.
        p_wrong: The probability that the given label is wrong.
        verdict: One of ``VERDICTS``.
    """

    id: str
    given: str
    suggested: str
    confidence: float
    p_wrong: float
    verdict: str


def label_rows(chunks: Iterable[Judged], class_names: Sequence[str]) -> Iterator[LabelRow]:
    """Yield every row in order."""
    for judged in chunks:
        columns = _columns(judged, class_names, distribution=False)
        wanted = ("id", "given_label", "suggested_label", "confidence", "p_wrong", "verdict")
        for row in zip(*(columns[name] for name in wanted), strict=True):
            yield LabelRow(*row)


def write_labels(
    path: Path,
    chunks: Iterable[Judged],
    class_names: Sequence[str],
    *,
    distribution: bool = False,
    take: Take | None = None,
    spreadsheet: bool = False,
) -> int:
    """Write a label table as .csv or .parquet, by chunks; returns the number of rows.

    Args:
        path: The file.
        chunks: Rows in order.
        class_names: The classes in the order of a distribution, followed by classes that only given labels have.
        distribution: Whether to write the probability of every class.
        take: Which labels to use, in a further column ``label``; empty for a row that a reviewer dropped.
        spreadsheet: Whether to quote cells of a .csv that a spreadsheet would treat as formulas. This changes such ids,
            so it is off by default.
    """
    writers = {".csv": _write_csv, ".parquet": _write_parquet}
    size = max(1, ENTRIES // len(class_names))
    parts = (part for chunk in chunks for part in (chunk.split(size) if distribution else [chunk]))
    tables = (_columns(chunk, class_names, distribution, take) for chunk in parts)
    if spreadsheet and path.suffix.lower() == ".csv":
        tables = (_for_spreadsheet(table) for table in tables)
    with writing(path, *writers) as partial:
        return writers[path.suffix.lower()](partial, tables)


Columns = dict[str, Sequence[str | float | None]]


def _columns(
    judged: Judged, class_names: Sequence[str], distribution: bool, take: Take | None = None
) -> Columns:
    columns: Columns = {"id": list(judged.ids)}
    columns |= {} if take is None else {"label": _named(judged.taken(take), class_names)}
    if judged.has_given:
        columns["given_label"] = [class_names[label] for label in judged.given.tolist()]
    columns["suggested_label"] = [class_names[label] for label in judged.suggested.tolist()]
    columns["confidence"] = [round(value, 6) for value in judged.confidence.tolist()]
    if judged.has_given:
        columns["p_wrong"] = [round(value, 6) for value in judged.p_wrong.tolist()]
        columns["verdict"] = [VERDICTS[verdict] for verdict in judged.verdict.tolist()]
    if judged.decision is not None:
        columns["decision"] = [DECISIONS[decision] for decision in judged.decision.tolist()]
    if judged.group is not None and judged.outlier is not None:
        columns["duplicates"] = [None if group == NO_GROUP else group for group in judged.group.tolist()]
        columns["outlier"] = [round(score, 3) if score > 0 else None for score in judged.outlier.tolist()]
    if distribution:
        whole = judged.distribution
        probabilities = whole.dense() if isinstance(whole, TopRows) else whole
        for index, name in enumerate(class_names[: judged.num_classes]):
            column = "p_class_wrong" if name == "wrong" else f"p_{name}"  # p_wrong is another column
            while column in columns:
                column = f"{column}_"
            columns[column] = [round(value, 6) for value in probabilities[:, index].tolist()]
    return columns


def _named(labels: Tensor, class_names: Sequence[str]) -> list[str]:
    """Names of classes; an empty text for none."""
    return ["" if label == NO_CLASS else class_names[label] for label in labels.tolist()]


def _for_spreadsheet(table: Columns) -> Columns:
    """Quote column names and texts that a spreadsheet would treat as formulas."""
    return {
        spreadsheet_cell(name): [
            spreadsheet_cell(value) if isinstance(value, str) else value for value in column
        ]
        for name, column in table.items()
    }


def _write_csv(path: Path, tables: Iterator[Columns]) -> int:
    count, has_header = 0, False
    # surrogateescape: an id may be a file name that is not UTF-8
    with path.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file:
        writer = csv.writer(file)
        for table in tables:
            if not has_header:
                writer.writerow(table)
                has_header = True
            rows = list(zip(*table.values(), strict=True))
            writer.writerows(rows)
            count += len(rows)
    return count


def _write_parquet(path: Path, tables: Iterator[Columns]) -> int:
    arrow = need("pyarrow", extra="tables", purpose="write Parquet")
    parquet = need("pyarrow.parquet", extra="tables", purpose="write Parquet")
    count, writer = 0, None
    for columns in tables:
        columns["id"] = [utf8(str(name)) for name in columns["id"]]
        table = arrow.table(
            {name: arrow.array(column, TYPES.get(name, "float64")) for name, column in columns.items()}
        )
        writer = writer or parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
        count += table.num_rows
    if writer is not None:
        writer.close()
    return count
