"""The index of a sharded data set: what every shard holds, written once, mapped into memory when used.

A folder with ``shards.json`` (shards with rows, bytes and checksum, class names) and, for each split, plain arrays of
little-endian int64: ``<split>-labels.bin``, for tar shards ``-offsets.bin`` and ``-sizes.bin`` (where each row's input
begins), and the rows' keys as text ``-keys.bin`` with ``-key-ends.bin``. Rows are numbered shard by shard. Nothing here
holds a Python object per row.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pencil.errors import DataError, PencilError
from pencil.identity import FORMAT, newer
from pencil.places import common_place, is_remote, may_contact, remedy, stays_within
from pencil.reading import MB, open_plain, read_json

MANIFEST = "shards.json"
MANIFEST_BYTES = 4096 * MB  # of ten million shards
_BLOCK = 1 << 22  # labels checked at once
_MOST = 1 << 60  # bytes, or rows
Format = Literal["tar", "parquet"]
Kind = Literal["images", "features"]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Shard:
    """One file of a data set.

    Attributes:
        name: Its name in ids and messages, unique in the index.
        url: Where it is: a path, relative to the folder that holds the index, or a remote address.
        rows: Examples in it.
        bytes: Its size.
        crc32: Its checksum.
        groups: Parquet: the rows of each row group.
    """

    name: str
    url: str
    rows: int
    bytes: int
    crc32: int
    groups: tuple[int, ...] = ()

    @property
    def expected(self) -> str:
        """What its file must be, in words."""
        return f"expected {self.bytes:,} bytes with checksum {self.crc32:08x}"


@dataclass(frozen=True)
class SplitIndex:
    """The rows of one split. Its arrays are mapped when first used, and anew in every process."""

    folder: Path
    name: str
    shards: tuple[Shard, ...]

    def __getstate__(self) -> dict[str, Any]:
        return {"folder": self.folder, "name": self.name, "shards": self.shards}

    def __len__(self) -> int:
        return int(self.ends[-1]) if self.shards else 0

    @cached_property
    def ends(self) -> Integers:
        """(shards,) the row after each shard's last."""
        return np.cumsum([shard.rows for shard in self.shards], dtype=np.int64)

    @cached_property
    def labels(self) -> Integers:
        """(N,) class of each row."""
        return self._mapped("labels")

    @cached_property
    def offsets(self) -> Integers:
        """(N,) where in its tar shard each row's input begins."""
        return self._mapped("offsets")

    @cached_property
    def sizes(self) -> Integers:
        """(N,) bytes of each row's input."""
        return self._mapped("sizes")

    def place(self, row: int) -> tuple[int, int]:
        """The shard of a row, and its position there."""
        shard = int(np.searchsorted(self.ends, row, side="right"))
        return shard, row - int(self.ends[shard]) + self.shards[shard].rows

    def key(self, row: int) -> str:
        """The name of the row within its shard; its position where rows have no names."""
        if self.key_ends is None:
            return str(self.place(row)[1])
        begin = int(self.key_ends[row - 1]) if row else 0
        return bytes(self.keys[begin : int(self.key_ends[row])]).decode("utf-8", "surrogateescape")

    def check_labels(self, classes: int) -> None:
        """Refuse labels that are no class; they are read in pieces, since there may be very many."""
        for first in range(0, len(self), _BLOCK):
            block = self.labels[first : first + _BLOCK]
            bad = (block < 0) | (block >= classes)
            if bad.any():
                row = first + int(bad.argmax())
                raise DataError(
                    f"{self.file('labels')}: row {row} has label {int(self.labels[row])}, but there are {classes} "
                    "classes; the index is damaged, write it again: pencil index"
                )

    @cached_property
    def key_ends(self) -> Integers | None:
        """(N,) where in ``keys`` the name of each row ends; None where rows have no names."""
        return self._mapped("key-ends") if self.file("key-ends").exists() else None

    @cached_property
    def keys(self) -> NDArray[np.uint8]:
        """The names of all rows, one after the other."""
        with open_plain(self.file("keys")) as file:
            size = os.fstat(file.fileno()).st_size
            return np.memmap(file, np.uint8, mode="c") if size else np.empty(0, np.uint8)

    def file(self, array: str) -> Path:
        """The file of an array."""
        return self.folder / f"{self.name}-{array}.bin"

    def _mapped(self, array: str) -> Integers:
        file, rows = self.file(array), len(self)
        size = file.stat().st_size if file.exists() else -1
        if size != 8 * rows:
            raise DataError(
                f"{file}: {size} bytes for {rows} rows; the index is damaged, write it again: pencil index"
            )
        # Copy on write: torch wants writable memory, but nothing writes to it.
        with open_plain(file) as plain:
            return np.memmap(plain, "<i8", mode="c") if rows else np.empty(0, np.int64)


@dataclass(frozen=True)
class Ids(Sequence[str]):
    """``<shard>/<key>`` for every row, made when needed."""

    split: SplitIndex

    @property
    def are_generated(self) -> bool:
        """Whether rows have no names, so that their positions take the place of keys."""
        return self.split.key_ends is None

    @property
    def checksum(self) -> int:
        """Of all keys; the names of shards are in the checksum of the inputs."""
        ends = self.split.key_ends
        return 0 if ends is None else zlib.crc32(self.split.keys.data, zlib.crc32(ends.data))

    def __len__(self) -> int:
        return len(self.split)

    def __getitem__(self, index: Any) -> Any:
        found = range(len(self))[index]
        return [self._id(row) for row in found] if isinstance(found, range) else self._id(found)

    def _id(self, row: int) -> str:
        shard, _ = self.split.place(row)
        return f"{self.split.shards[shard].name}/{self.split.key(row)}"


@dataclass(frozen=True)
class ShardIndex:
    """A sharded data set as described by its index.

    Attributes:
        folder: The folder of the index.
        format: What the shards are.
        kind: What the inputs are.
        classes: Class names, in the order of the labels.
        splits: By name, ``train`` and perhaps ``test``.
        column: Parquet: where the inputs are.
        shape: Features: the shape of each.
        dtype: Features: the type of all.
    """

    folder: Path
    format: Format
    kind: Kind
    classes: tuple[str, ...]
    splits: Mapping[str, SplitIndex]
    column: str | None = None
    shape: tuple[int, ...] = ()
    dtype: str = ""

    @classmethod
    def open(cls, folder: Path) -> ShardIndex:
        """The index in a folder."""
        file = folder / MANIFEST
        try:
            return cls._of(folder, read_json(file, limit=MANIFEST_BYTES))
        except (PencilError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise DataError(
                f"{file}: cannot be read as an index of shards ({type(error).__name__}: {error}); write it again: "
                f"pencil index SHARDS --out {folder}"
            ) from error

    @classmethod
    def _of(cls, folder: Path, table: dict[str, Any]) -> ShardIndex:
        version = table.get("version", FORMAT)
        _require(_is_count(version), "version", version)
        if version > FORMAT:
            raise ValueError(newer(version))
        splits = {
            name: SplitIndex(folder, name, tuple(_shard(values) for values in shards))
            for name, shards in table["splits"].items()
        }
        shape, classes = tuple(table["shape"]), tuple(table["classes"])
        index = cls(
            folder, table["format"], table["kind"], classes, splits, table["column"], shape, table["dtype"]
        )
        index._check()
        return index

    def _check(self) -> None:
        """Raise ValueError for values that no index has: names become parts of paths, numbers become sizes."""
        _require("train" in self.splits and set(self.splits) <= {"train", "test"}, "splits", [*self.splits])
        _require(
            self.format in ("tar", "parquet") and self.kind in ("images", "features"), "format", self.format
        )
        _require(all(isinstance(name, str) for name in self.classes), "classes", self.classes[:5])
        _require(len(set(self.classes)) == len(self.classes) > 0, "classes", self.classes[:5])
        for split in self.splits.values():
            _require(_is_count(sum(shard.rows for shard in split.shards)), "rows", "more than there can be")
        _require(self.column is None or isinstance(self.column, str), "column", self.column)
        _require(all(_is_count(size) for size in self.shape), "shape", self.shape)
        if self.kind == "features":
            _require(np.dtype(self.dtype).kind in "fiu", "dtype", self.dtype)

    def table(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "version": FORMAT,
            "format": self.format,
            "kind": self.kind,
            "column": self.column,
            "shape": list(self.shape),
            "dtype": self.dtype,
            "splits": {name: [vars(shard) for shard in split.shards] for name, split in self.splits.items()},
            "classes": list(self.classes),
        }

    @property
    def shards(self) -> tuple[Shard, ...]:
        """Those of all splits."""
        return tuple(shard for split in self.splits.values() for shard in split.shards)

    def outside(self, allow: Sequence[str] = ()) -> list[str]:
        """The places of shards that are outside the folder that holds the index and all places that are allowed."""
        home = self.folder.absolute().parent
        far = [shard.url for shard in self.shards if is_remote(shard.url)]
        near = [shard.url for shard in self.shards if not is_remote(shard.url)]
        return [
            *(url for url in far if not may_contact(url, allow)),
            *(os.path.normpath(home / url) for url in near if not stays_within(url, home, allow)),
        ]

    def check_places(self, allow: Sequence[str] = ()) -> None:
        """Refuse shards elsewhere before anything there is read or contacted: the index may not be trusted."""
        outside = self.outside(allow)
        if outside:
            raise DataError(
                f"{self.folder / MANIFEST}: names {len(outside):,} shards outside {self.folder.absolute().parent}, "
                f"first {outside[0]}; {remedy(common_place(outside))}"
            )

    def locate(self, shard: Shard) -> Path:
        """The file of a shard that is not remote."""
        return self.folder.parent / shard.url


def _shard(values: dict[str, Any]) -> Shard:
    shard = Shard(**{**values, "groups": tuple(values.get("groups", ()))})
    _require(isinstance(shard.name, str) and isinstance(shard.url, str), "name", shard.name)
    _require("\0" not in shard.url, "url", shard.url)
    counts = {"rows": shard.rows, "bytes": shard.bytes, "crc32": shard.crc32}
    for field, value in (*counts.items(), *(("groups", rows) for rows in shard.groups)):
        _require(_is_count(value), field, value)
    return shard


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST


def _require(holds: bool, field: str, value: object) -> None:
    if not holds:
        raise ValueError(f"{field}: {str(value)[:80]!r}")
