"""Parquet shards: a column of encoded images or of feature lists, a column of labels, perhaps one of ids.

A row is addressed by its row group and its position there; row groups are read whole, and the last ones used are kept.
"""

from __future__ import annotations

import bisect
import itertools
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pencil.data.shards.cache import file_crc32
from pencil.data.shards.files import OPEN, Recent, ShardFiles
from pencil.data.shards.samples import Fields, Layout, Scan, label_value
from pencil.errors import PencilError
from pencil.imports import need
from pencil.reading import open_plain

INPUTS = ("image", "img", "features", "embedding")
"""Columns looked for where none is named."""
MOST_BYTES = 256 << 20
"""The most a row group may take in memory, where it is not stored in nearly as much."""
KEPT_BYTES = 256 << 20
"""Row groups that one process keeps, in bytes; the one used last always stays."""


def scan_parquet(path: Path, fields: Fields) -> Scan:
    """Everything the index keeps of a shard."""
    scan = Scan(bytes=path.stat().st_size, crc32=file_crc32(path))
    try:
        file = _open(path)
        columns = _columns(file.schema_arrow.names, fields)
        scan.column, scan.groups = (
            columns["input"],
            tuple(file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)),
        )
        for group in range(file.num_row_groups):
            table = _row_group(file, group, list(columns.values()))
            _scan_group(table, columns, sum(scan.groups[:group]), scan)
    except PencilError:
        raise
    except Exception as error:  # pyarrow's own errors, and what damaged schemas make of it
        scan.problems.append(f"cannot be read as Parquet ({error}); write it again")
    _check_ids(scan)
    return scan


def _open(path: Path) -> Any:
    parquet = need("pyarrow.parquet", extra="tables", purpose="read Parquet shards")
    with open_plain(path):  # refuses what is no file; arrow opens files itself, without Python's
        return parquet.ParquetFile(path)


def _row_group(file: Any, group: int, columns: list[str]) -> Any:
    """Some columns of a row group, read in pieces: a value stored once may be repeated in every row."""
    arrow: Any = need("pyarrow", extra="tables", purpose="read Parquet shards")
    # Not the sum over its columns: arrow ends the process where the metadata of a column is damaged.
    size = max(0, file.metadata.row_group(group).total_byte_size)
    rows = max(4, min(MOST_BYTES // max(1, 4 * size), 4096))
    batches, taken = [], 0
    for batch in file.iter_batches(batch_size=rows, row_groups=[group], columns=columns, use_threads=False):
        batches.append(batch)
        taken += batch.nbytes
        if taken > max(MOST_BYTES, 8 * size):
            raise ValueError(
                f"row group {group} takes more than {taken:,} bytes, stored in {size:,}; write smaller row groups"
            )
    return arrow.Table.from_batches(batches, file.schema_arrow if not batches else None).select(columns)


def _columns(names: list[str], fields: Fields) -> dict[str, str]:
    """Column by role."""
    wanted = {
        "input": [fields.input] if fields.input else [name for name in INPUTS if name in names][:1],
        "label": [fields.label or "label"],
        "id": [fields.id] if fields.id else [name for name in ("id",) if name in names],
    }
    if not wanted["input"]:
        raise ValueError(
            f"no column {', '.join(INPUTS)} among {', '.join(names)}; name one with --input-field"
        )
    for role, (name, *_) in ((role, found) for role, found in wanted.items() if found):
        if name not in names:
            raise ValueError(f"no column {name!r} among {', '.join(names)}; name another with --{role}-field")
    return {role: found[0] for role, found in wanted.items() if found}


def _scan_group(table: Any, columns: dict[str, str], first: int, scan: Scan) -> None:
    scan.layouts.add(_layout(table.column(columns["input"])))
    for row, value in enumerate(table.column(columns["label"]).to_pylist(), first):
        try:
            scan.labels.append(label_value(value))
        except ValueError as error:
            scan.problems.append(f"row {row}: {error}")
    if "id" in columns:
        scan.keys += [str(value).encode() for value in table.column(columns["id"]).to_pylist()]


def _check_ids(scan: Scan) -> None:
    seen: set[bytes] = set()
    for row, key in enumerate(scan.keys):
        if key in seen:
            scan.problems.append(f"row {row}: another row has the id {key.decode()!r} too")
        seen.add(key)


def _layout(column: Any) -> Layout:
    """What the inputs of a row group look like."""
    values = _values(column)
    if isinstance(values, np.ndarray):
        return Layout("features", values.shape[1:], values.dtype.name)
    return Layout("images")


def _values(column: Any) -> Any:
    """Encoded images as an arrow array of bytes, or features as an array (rows, D)."""
    arrow: Any = need("pyarrow", extra="tables", purpose="read Parquet shards")
    array = column.combine_chunks()
    array = array if isinstance(array, arrow.Array) else arrow.concat_arrays(array.chunks)
    if arrow.types.is_struct(array.type) and array.type.get_field_index("bytes") >= 0:
        array = array.field("bytes")  # images as the datasets package writes them
    if array.null_count:
        raise ValueError(f"{array.null_count} rows of the input column are empty")
    if arrow.types.is_binary(array.type) or arrow.types.is_large_binary(array.type):
        return array
    return _features(array, arrow)


def _features(array: Any, arrow: Any) -> NDArray[Any]:
    kinds = (arrow.types.is_list, arrow.types.is_large_list, arrow.types.is_fixed_size_list)
    if not any(is_kind(array.type) for is_kind in kinds):
        raise ValueError(
            f"the input column holds {array.type}, neither encoded images (binary) nor lists of numbers"
        )
    values: NDArray[Any] = array.flatten().to_numpy(zero_copy_only=False)
    width = len(values) // max(len(array), 1)
    fixed = arrow.types.is_fixed_size_list(array.type)
    lengths = [width] if fixed else np.unique(array.value_lengths().to_numpy(zero_copy_only=False))
    if values.dtype.kind not in "fiu" or list(lengths) != [width]:
        raise ValueError(f"the feature lists are not all {width} numbers")
    return values.reshape(len(array), width)


class ParquetReader:
    """Inputs of Parquet shards by row, from row groups that stay in memory for a while."""

    def __init__(self, files: ShardFiles, column: str) -> None:
        self._files = files
        self._column = column
        self._open: Recent[Any] = Recent(OPEN)
        self._groups: Recent[Any] = Recent(KEPT_BYTES, lambda values: int(values.nbytes))
        self._ends = [list(itertools.accumulate(shard.groups)) for shard in files.shards]

    def read(self, shard: int, position: int) -> bytes | NDArray[Any]:
        """The encoded image or the features of the row at a position of a shard."""
        group = bisect.bisect_right(self._ends[shard], position)
        values = self._groups.get((shard, group), lambda: self._group(shard, group))
        place = position - self._ends[shard][group] + self._files.shards[shard].groups[group]
        value = values[place]
        return value if isinstance(value, np.ndarray) else bytes(value.as_buffer())

    def _group(self, shard: int, group: int) -> Any:
        file = self._open.get(shard, lambda: self._files.open(shard, _open))
        return _values(_row_group(file, group, [self._column]).column(0))
