"""Hugging Face datasets: a Parquet file with a schema that declares labels as ClassLabel.

datasets.load_dataset("parquet", data_files="labels.parquet")
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pencil.algorithm import Rows, TopRows
from pencil.escape import utf8
from pencil.imports import need
from pencil.results import VERDICTS, Judged

ENTRIES = 1 << 22  # probabilities written at once


def features(class_names: Sequence[str], *, distribution: bool = False) -> dict[str, Any]:
    """The features in the library's schema format."""
    label = {"names": list(class_names), "_type": "ClassLabel"}
    number = {"dtype": "float32", "_type": "Value"}
    whole = {"distribution": {"feature": number, "length": len(class_names), "_type": "List"}}
    return {
        "id": {"dtype": "string", "_type": "Value"},
        "given_label": label,
        "suggested_label": label,
        "confidence": number,
        "p_wrong": number,
        "verdict": {"names": list(VERDICTS), "_type": "ClassLabel"},
        **(whole if distribution else {}),
    }


def write_parquet(
    path: Path, chunks: Iterable[Judged], class_names: Sequence[str], *, distribution: bool = False
) -> int:
    """Write the table in chunks; return the number of rows."""
    parquet = need("pyarrow.parquet", extra="tables", purpose="write Parquet")
    schema = _schema(class_names, distribution=distribution)
    size, count = max(1, ENTRIES // len(class_names)), 0
    with parquet.ParquetWriter(path, schema) as writer:
        for part in (part for chunk in chunks for part in chunk.split(size)):
            writer.write_table(_table(part, class_names, schema))
            count += len(part.ids)
    return count


def _schema(class_names: Sequence[str], *, distribution: bool) -> Any:
    arrow = need("pyarrow", extra="tables", purpose="write Parquet")
    described = features(class_names, distribution=distribution)
    types = {
        "id": arrow.string(),
        "given_label": arrow.int64(),
        "suggested_label": arrow.int64(),
        "confidence": arrow.float32(),
        "p_wrong": arrow.float32(),
        "verdict": arrow.int64(),
        "distribution": arrow.list_(arrow.float32(), len(class_names)),
    }
    text = json.dumps({"info": {"features": described}})
    return arrow.schema([(name, types[name]) for name in described], metadata={"huggingface": text})


def _table(judged: Judged, class_names: Sequence[str], schema: Any) -> Any:
    arrow = need("pyarrow", extra="tables", purpose="write Parquet")
    columns = {
        "id": [utf8(name) for name in judged.ids],
        "given_label": judged.given.tolist(),
        "suggested_label": judged.suggested.tolist(),
        "confidence": [round(value, 6) for value in judged.confidence.tolist()],
        "p_wrong": [round(value, 6) for value in judged.p_wrong.tolist()],
        "verdict": judged.verdict.tolist(),
    }
    if "distribution" in schema.names:
        values = arrow.array(_dense(judged.distribution).flatten().numpy())
        columns["distribution"] = arrow.FixedSizeListArray.from_arrays(values, len(class_names))
    return arrow.table(columns, schema=schema)


def _dense(distribution: Rows) -> Any:
    return distribution.dense() if isinstance(distribution, TopRows) else distribution
