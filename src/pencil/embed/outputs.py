"""Where features go: an ``.npz``, or Parquet shards with their index."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from pencil.data import Examples, write_index
from pencil.data.shards.classes import is_number
from pencil.embed.parts import RECORDS, Output, Part, Rows
from pencil.errors import ConfigError, DataError
from pencil.escape import utf8
from pencil.imports import need
from pencil.results.files import writing

GROUP_ROWS = 1024
"""Rows of a Parquet row group, which is read whole."""
INDEX_WORKERS = 4  # shards read at once


class NpzOutput(Output):
    """One ``.npz`` with X, y, ids and names, and X_test, y_test, test_ids; parts are in a folder beside it."""

    suffix = ".npy"

    @property
    def folder(self) -> Path:
        """``FILE.parts``, removed in the end."""
        return self.out.with_name(f"{self.out.name}.parts")

    def check(self) -> None:
        """The file must not exist yet."""
        if self.out.exists():
            raise ConfigError(f"--out {self.out}: exists already; remove it or choose another file")

    def write(self, part: Part, features: Tensor, path: Path) -> None:
        """An ``.npy`` of features."""
        np.save(path, features.numpy())

    def finish(self) -> Path:
        """Copy the parts into the file, one after the other."""
        with writing(self.out, ".npz") as partial, zipfile.ZipFile(partial, "w") as archive:
            for split, rows in self.splits.items():
                for name, array in _columns(split, rows).items():
                    _add(archive, name, array.shape, array.dtype, [array])
                stored = (self._part(part) for part in self.parts if part.split == split)
                name = "X" if split == "train" else f"X_{split}"
                _add(archive, name, (len(rows), self.encoder.size), np.dtype("<f4"), stored)
        shutil.rmtree(self.folder, ignore_errors=True)  # another process may have done the same
        return self.out

    def _part(self, part: Part) -> NDArray[Any]:
        stored: NDArray[Any] = np.load(self.path(part), allow_pickle=False)
        return stored


def _columns(split: str, rows: Rows) -> dict[str, NDArray[Any]]:
    """The arrays beside the features, by name."""
    prefix, suffix = ("", "") if split == "train" else (f"{split}_", f"_{split}")
    columns: dict[str, NDArray[Any]] = {f"{prefix}ids": np.array([utf8(name) for name in rows.ids])}
    if isinstance(rows, Examples):
        columns[f"y{suffix}"] = rows.labels.values.numpy()
        if split == "train":
            columns["names"] = np.array(rows.class_names)
    return columns


def _add(
    archive: zipfile.ZipFile,
    name: str,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    chunks: Iterable[NDArray[Any]],
) -> None:
    """Add an array in pieces. The entry has no date, so that equal features give equal files."""
    header: Any = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as file:
        np.lib.format.write_array_header_1_0(file, header)
        for chunk in chunks:
            file.write(np.ascontiguousarray(chunk).tobytes())


class ShardOutput(Output):
    """A folder of Parquet shards, with columns id, label and features, and their index in ``index``."""

    suffix = ".parquet"

    @property
    def folder(self) -> Path:
        """The folder itself; shards stay where they are."""
        return self.out

    @property
    def index(self) -> Path:
        """What to train with."""
        return self.out / "index"

    def check(self) -> None:
        """Shards have one label each, by name, and the index must not exist yet."""
        if self.index.exists():
            raise ConfigError(f"--out {self.out}: is finished already; remove it or choose another folder")
        for split, rows in self.splits.items():
            if not isinstance(rows, Examples) or rows.labels.values.dim() != 1:
                raise DataError(
                    f"--out {self.out}: shards need one label per row, which the {split} rows do not have; write an "
                    ".npz: --out FILE.npz"
                )
            _check_names(rows.class_names, self.out)
        need("pyarrow.parquet", extra="tables", purpose="write Parquet shards")

    def write(self, part: Part, features: Tensor, path: Path) -> None:
        """A shard."""
        arrow: Any = need("pyarrow", extra="tables", purpose="write Parquet shards")
        parquet: Any = need("pyarrow.parquet", extra="tables", purpose="write Parquet shards")
        rows = self.splits[part.split]
        assert isinstance(rows, Examples)
        labels = [rows.class_names[label] for label in rows.labels.hard[part.start : part.stop].tolist()]
        values = arrow.array(features.numpy().reshape(-1))
        table = arrow.table(
            {
                "id": [utf8(name) for name in rows.ids[part.start : part.stop]],
                "label": labels,
                "features": arrow.FixedSizeListArray.from_arrays(values, features.shape[1]),
            }
        )
        parquet.write_table(table, path, row_group_size=GROUP_ROWS)

    def finish(self) -> Path:
        """Index the shards."""
        shards: dict[str, Sequence[str]] = {
            split: [str(self.path(part)) for part in self.parts if part.split == split]
            for split in self.splits
        }
        write_index(shards, self.index, workers=INDEX_WORKERS)
        shutil.rmtree(self.folder / RECORDS, ignore_errors=True)
        return self.index


def _check_names(names: Sequence[str], out: Path) -> None:
    """An index takes labels that are all numbers for class numbers."""
    if all(map(is_number, names)) and list(names) != [str(number) for number in range(len(names))]:
        raise DataError(
            f"--out {out}: the class names are numbers, such as {names[0]!r}, which an index would take for class "
            "numbers; write an .npz: --out FILE.npz"
        )
