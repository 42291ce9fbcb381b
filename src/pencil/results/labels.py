"""Learned labels as a table: id, given, suggested, confidence; the whole distribution on request."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from pencil.errors import need
from pencil.results.files import damaged, read_tensors, writing
from pencil.stores import GivenLabels

LABELS = "labels.safetensors"
IDS = "ids.txt"


@dataclass(frozen=True)
class LabelChunk:
    """Some rows' labels.

    Attributes:
        ids: What identifies each row.
        given: The name of the class that came with each row.
        distribution: (B, C) float32, the belief about the true class.
    """

    ids: Sequence[str]
    given: Sequence[str]
    distribution: Tensor


def save_labels(folder: Path, given: GivenLabels, rows: dict[str, Tensor], ids: Sequence[str]) -> None:
    """Write given labels, learned rows and ids (a JSON string a line, for an id may hold anything)."""
    trusted = {} if given.trusted is None else {"trusted": given.trusted}
    learned = {f"rows/{name}": value.cpu() for name, value in rows.items()}
    save_file({"given": given.values, **trusted, **learned}, folder / LABELS)
    with (folder / IDS).open("w", encoding="ascii") as file:
        file.writelines(f"{json.dumps(name)}\n" for name in ids)


def load_labels(folder: Path, num_classes: int) -> tuple[GivenLabels, dict[str, Tensor], list[str]]:
    """What ``save_labels`` wrote."""
    tensors = read_tensors(folder / LABELS)
    rows = {name.removeprefix("rows/"): value for name, value in tensors.items() if name.startswith("rows/")}
    return GivenLabels(tensors["given"], num_classes, tensors.get("trusted")), rows, _load_ids(folder / IDS)


def _load_ids(path: Path) -> list[str]:
    try:
        return [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]
    except (OSError, ValueError) as error:
        raise damaged(path, error) from error


def write_labels(
    path: Path, chunks: Iterable[LabelChunk], class_names: Sequence[str], *, distribution: bool = False
) -> int:
    """Write a label table as .csv or .parquet, by chunks; answers with the number of rows."""
    writers = {".csv": _write_csv, ".parquet": _write_parquet}
    tables = (_columns(chunk, class_names, distribution) for chunk in chunks)
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
    }
    if distribution:
        for index, name in enumerate(class_names):
            columns[f"p_{name}"] = [round(value, 6) for value in chunk.distribution[:, index].tolist()]
    return columns


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


def chunks_of(count: int, size: int = 65536) -> Iterator[Tensor]:
    """Row numbers 0 to ``count`` - 1 in chunks."""
    yield from torch.arange(count).split(size)
