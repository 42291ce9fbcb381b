"""Features of a whole data set as files: an ``.npz``, or Parquet shards with their index.

Rows are divided into parts of a fixed size, whatever the number of processes, and each part is a file that is complete
or absent. So a run that was killed continues after its complete parts, and several processes write the same bytes as
one. They share nothing but the folder: rank 0 waits until all parts are there, then joins or indexes them.
"""

from __future__ import annotations

import json
import shutil
import time
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pencil.data import Examples, Unlabelled, span, write_index
from pencil.data.fingerprint import fingerprint
from pencil.durable import make_folder, replacing, write_text
from pencil.embed.encode import BATCH, encode_rows, encoded
from pencil.embed.encoder import Encoder
from pencil.errors import ConfigError, DataError
from pencil.imports import need

PART_ROWS = 8192
GROUP_ROWS = 1024
"""Rows of a Parquet row group, which is read whole."""
INDEX_WORKERS = 4  # shards read at once
POLL_SECONDS = 0.2
SETTINGS = "embed.json"
Rows = Examples | Unlabelled
Progress = Callable[[int, int], None]
"""Called with the rows done and all rows of this rank; rows of complete parts count as done from the start."""


@dataclass(frozen=True)
class Part:
    """Consecutive rows of a split."""

    split: str
    number: int
    start: int
    stop: int

    @property
    def stem(self) -> str:
        """The file's name without ending."""
        return f"{self.split}-{self.number:05}"


def parts_of(splits: Mapping[str, Rows], part_rows: int) -> list[Part]:
    """All parts, in order."""
    return [
        Part(split, number, start, min(start + part_rows, len(rows)))
        for split, rows in splits.items()
        for number, start in enumerate(range(0, len(rows), part_rows))
    ]


@dataclass(frozen=True)
class Output(ABC):
    """Where features go.

    Attributes:
        out: The file or folder that the user named.
        splits: The rows by split: "train" and perhaps "test".
        encoder: Makes the features.
        part_rows: Rows of a part.
    """

    out: Path
    splits: Mapping[str, Rows]
    encoder: Encoder
    part_rows: int = PART_ROWS
    suffix: ClassVar[str]

    def __post_init__(self) -> None:
        self.check()

    @property
    @abstractmethod
    def folder(self) -> Path:
        """The folder of the parts."""

    @abstractmethod
    def check(self) -> None:
        """Refuse what could not be finished, before hours of work."""

    @abstractmethod
    def write(self, part: Part, features: Tensor, path: Path) -> None:
        """Write a part (B, D) to a file."""

    @abstractmethod
    def finish(self) -> Path:
        """Join the parts; returns the path to train with."""

    def path(self, part: Part) -> Path:
        """The file of a part."""
        return self.folder / f"{part.stem}{self.suffix}"

    @property
    def parts(self) -> list[Part]:
        """All parts, in order."""
        return parts_of(self.splits, self.part_rows)

    def settings(self) -> dict[str, Any]:
        """What must be equal for parts to belong together."""
        return {
            "model": self.encoder.name,
            "mark": self.encoder.mark,
            "features": self.encoder.size,
            "part_rows": self.part_rows,
            "data": {
                split: fingerprint(rows) if isinstance(rows, Examples) else {"rows": len(rows)}
                for split, rows in self.splits.items()
            },
        }


def embed_rows(
    output: Output,
    *,
    rank: int = 0,
    world_size: int = 1,
    batch: int = BATCH,
    progress: Progress = lambda *_: None,
) -> int:
    """Write the parts of this rank that are not there yet; returns how many rows were encoded."""
    _begin(output, rank)
    all_parts = output.parts
    mine = [all_parts[number] for number in span(len(all_parts), rank, world_size)]
    left = [part for part in mine if not output.path(part).exists()]
    total, todo = (sum(part.stop - part.start for part in parts) for parts in (mine, left))
    done = 0
    for part in left:
        features = []
        for rows, values in encoded(
            output.splits[part.split].inputs, output.encoder, range(part.start, part.stop), batch
        ):
            features.append(values)
            done += len(rows)
            progress(total - todo + done, total)
        with replacing(output.path(part)) as partial:
            output.write(part, torch.cat(features), partial)
    return done


def join_parts(output: Output, waiting: Callable[[int], None] = lambda _: None) -> Path:
    """Wait for the parts of all ranks, then finish; ``waiting`` is called with the number that is missing."""
    missing = output.parts
    while missing := [part for part in missing if not output.path(part).exists()]:
        waiting(len(missing))
        time.sleep(POLL_SECONDS)
    return output.finish()


def _begin(output: Output, rank: int) -> None:
    """Make the folder and its settings, or check that those there are the same."""
    path, settings = output.folder / SETTINGS, output.settings()
    if path.is_file():
        _check_same(json.loads(path.read_text(encoding="utf-8")), settings, output)
        return
    if rank == 0:
        _check_own(output)
    first = next(iter(output.splits.values()))
    encode_rows(first.inputs, output.encoder, [0])  # a model that does not fit leaves no folder behind
    make_folder(output.folder)
    if rank == 0:
        write_text(path, json.dumps(settings, indent=1))


def _check_own(output: Output) -> None:
    """Refuse a folder with files of others; another rank may have written parts already."""
    known = {f"{part.stem}{output.suffix}" for part in output.parts}
    found = output.folder.iterdir() if output.folder.is_dir() else ()
    foreign = next((file.name for file in found if file.name.removeprefix(".partial-") not in known), None)
    if foreign is not None:
        raise ConfigError(
            f"--out {output.out}: holds {foreign}, which this command did not write; choose another folder"
        )


def _check_same(before: Mapping[str, Any], now: Mapping[str, Any], output: Output) -> None:
    words = {
        "model": "another model",
        "mark": "other weights or preprocessing",
        "part_rows": "another --part-rows",
        "data": "other data",
    }
    changed = [word for key, word in words.items() if before.get(key) != now[key]]
    if changed:
        raise ConfigError(
            f"--out {output.out}: was begun with {' and '.join(changed)}; remove {output.folder} or choose another"
        )


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
        with replacing(self.out) as partial, zipfile.ZipFile(partial, "w") as archive:
            for split, rows in self.splits.items():
                for name, array in _columns(split, rows).items():
                    _add(archive, name, array.shape, array.dtype, [array])
                stored = (self._part(part) for part in self.parts if part.split == split)
                name = "X" if split == "train" else f"X_{split}"
                _add(archive, name, (len(rows), self.encoder.size), np.dtype("<f4"), stored)
        shutil.rmtree(self.folder)
        return self.out

    def _part(self, part: Part) -> NDArray[Any]:
        stored: NDArray[Any] = np.load(self.path(part), allow_pickle=False)
        return stored


def _columns(split: str, rows: Rows) -> dict[str, NDArray[Any]]:
    """The arrays beside the features, by name."""
    prefix, suffix = ("", "") if split == "train" else (f"{split}_", f"_{split}")
    columns: dict[str, NDArray[Any]] = {f"{prefix}ids": np.array([_utf8(name) for name in rows.ids])}
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
        """Shards have one label each, by name."""
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
                "id": [_utf8(name) for name in rows.ids[part.start : part.stop]],
                "label": labels,
                "features": arrow.FixedSizeListArray.from_arrays(values, features.shape[1]),
            }
        )
        parquet.write_table(table, path, row_group_size=GROUP_ROWS)

    def finish(self) -> Path:
        """Index the shards, unless that was done."""
        if not self.index.exists():
            shards: dict[str, Sequence[str]] = {
                split: [str(self.path(part)) for part in self.parts if part.split == split]
                for split in self.splits
            }
            write_index(shards, self.index, workers=INDEX_WORKERS)
        return self.index


def _check_names(names: Sequence[str], out: Path) -> None:
    """An index takes labels that are all numbers for class numbers."""
    if all(name.isdecimal() for name in names) and list(names) != [
        str(number) for number in range(len(names))
    ]:
        raise DataError(
            f"--out {out}: the class names are numbers, such as {names[0]!r}, which an index would take for class "
            "numbers; write an .npz: --out FILE.npz"
        )


def _utf8(name: str) -> str:
    """An id that can be written; the name of a file may be any bytes."""
    return name.encode("utf-8", "backslashreplace").decode()
