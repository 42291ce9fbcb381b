"""Examples from an index of shards: nothing is read before it is needed."""

from __future__ import annotations

import io
import warnings
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from pencil.data.examples import Examples, Splits
from pencil.data.images import Extent, ImageDecoder
from pencil.data.inputs import Image, as_image
from pencil.data.order import Blocks
from pencil.data.shards.cache import ShardCache, default_folder
from pencil.data.shards.files import OpenFiles, Problems, ShardFiles, absent_shards
from pencil.data.shards.index import Ids, ShardIndex, SplitIndex
from pencil.data.shards.parquet import ParquetReader
from pencil.data.shards.samples import Layout, read_npy
from pencil.data.shards.tar import TarReader
from pencil.errors import DataError, ExampleError
from pencil.places import is_remote
from pencil.stores import GivenLabels

SHOWN = 5
CACHE_BYTES = 50 * 10**9


@dataclass(frozen=True, eq=False)
class ShardInputs:
    """Inputs by row number of a split, each read from its shard and decoded.

    Attributes:
        index: The data set.
        split: The rows.
        files: Where the shards are.
        decoder: How images become tensors; None for features.
        first: The row that gives the size of all images where they are not resized.
    """

    index: ShardIndex
    split: SplitIndex
    files: ShardFiles
    decoder: ImageDecoder | None
    first: int = 0
    is_lazy: ClassVar[bool] = True

    def __getstate__(self) -> dict[str, Any]:
        """Without open files: another process opens its own."""
        return {name: value for name, value in vars(self).items() if name != "_reader"}

    def __len__(self) -> int:
        return len(self.split)

    @cached_property
    def blocks(self) -> Blocks:
        """A block for every shard."""
        return Blocks.of_sizes(torch.tensor([shard.rows for shard in self.split.shards], dtype=torch.int64))

    @cached_property
    def checksum(self) -> int:
        """Of the shards that the index names, by their own checksums: nothing is read for it."""
        marks = [(shard.name, shard.rows, shard.bytes, shard.crc32) for shard in self.split.shards]
        return zlib.crc32(repr(marks).encode())

    def fetch(self, indices: Tensor) -> Tensor:
        """Images (B, channels, H, W) uint8 or features (B, ...) of the rows numbered (B,)."""
        places = indices.argsort()  # in the order of their shards
        values = [self._value(row) for row in indices[places].tolist()]
        batch = torch.empty(len(indices), *values[0].shape, dtype=values[0].dtype)
        for place, value in zip(places.tolist(), values, strict=True):
            batch[place] = value
        return batch

    def shown(self, index: int) -> Image | None:
        """The image (3, H, W) uint8 of a row as its shard has it."""
        if self.decoder is None:
            return as_image(self._value(index))
        return Image(ImageDecoder.original(io.BytesIO(self._stored(index)), self._name(index)))

    def content(self, index: int) -> bytes:
        """The bytes of a row as its shard has them."""
        stored = self._stored(index)
        return stored if isinstance(stored, bytes) else bytes(stored.tobytes())

    def sized_by(self, index: int) -> ShardInputs:
        """The same inputs; images that are not resized all have the size of this one."""
        return replace(self, first=index)

    def _value(self, row: int) -> Tensor:
        stored = self._stored(row)
        if self.decoder is not None:
            return self.decoder.decode(
                io.BytesIO(stored), self._name(row), self._extent, self._name(self.first)
            )
        value = torch.from_numpy(self._features(stored, row))
        if value.is_floating_point() and not bool(torch.isfinite(value).all()):
            raise ExampleError(
                f"{self._name(row)}: holds NaN or infinity; fix it, or leave such samples out: "
                "--set data.on_error=skip"
            )
        return value

    def _features(self, stored: Any, row: int) -> Any:
        if isinstance(stored, bytes):
            return read_npy(stored, Layout("features", self.index.shape, self.index.dtype), self._name(row))
        return stored.copy()  # arrow's memory must not be written to

    def _stored(self, row: int) -> Any:
        shard, position = self.split.place(row)
        try:
            if isinstance(self._reader, TarReader):
                return self._reader.read(shard, row)
            return self._reader.read(shard, position)
        except Exception as error:  # pyarrow has its own errors, and an index may hold anything
            raise DataError(
                f"{self._name(row)}: cannot be read ({error}); {self.split.shards[shard].expected}: "
                "restore the shard, then resume"
            ) from error

    def _name(self, row: int) -> str:
        """The name of a row in messages."""
        shard, _ = self.split.place(row)
        return f"{self.split.shards[shard].name}, sample {self.split.key(row)!r}"

    @cached_property
    def _reader(self) -> TarReader | ParquetReader:
        if self.index.format == "parquet":
            return ParquetReader(self.files, self.index.column or "")
        return TarReader(self.split, OpenFiles(self.files))

    @cached_property
    def _extent(self) -> Extent:
        """Width and height of every image; without a size, those of the first."""
        assert self.decoder is not None
        if self.decoder.size is not None:
            return self.decoder.size, self.decoder.size
        return self.decoder.extent(io.BytesIO(self._stored(self.first)), self._name(self.first))


def read_shards(
    folder: str | Path,
    *,
    size: int | None = None,
    channels: int = 3,
    missing: Literal["error", "skip"] = "error",
    cache: str | Path | None = None,
    cache_bytes: int = CACHE_BYTES,
    allow: Sequence[str] = (),
) -> Splits:
    """Read the index that ``pencil index`` wrote.

    Args:
        folder: The index.
        size: Height and width to resize images to, or None if all have one size already.
        channels: 3 for RGB, 1 for grey.
        missing: Whether shards that are missing or cut off are an error, or passed over with a warning.
        cache: Where remote shards are kept; the user's cache folder by default.
        cache_bytes: How much they may take there.
        allow: Folders and addresses where shards may be besides the folder that holds the index, see ``pencil.places``.

    Returns:
        Rows in the order of the shards; ids are ``<shard>/<key>``.
    """
    index = ShardIndex.open(Path(folder))
    index.check_places(allow)
    kept = ShardCache(default_folder() if cache is None else Path(cache).expanduser(), cache_bytes)
    _check_cache(index, kept)
    absent = absent_shards(index, kept)
    if absent:
        _report(absent, skip=missing == "skip")
    decoder = ImageDecoder(size, channels) if index.kind == "images" else None
    examples = {
        name: _examples(index, split, ShardFiles(index, split.shards, kept), decoder, absent)
        for name, split in index.splits.items()
    }
    skipped = {shard.name: shard.rows for shard in absent}
    return Splits(examples["train"], examples.get("test"), skipped=skipped)


def _check_cache(index: ShardIndex, cache: ShardCache) -> None:
    remote = [shard for shard in index.shards if is_remote(shard.url)]
    largest = max(remote, key=lambda shard: shard.bytes, default=None)
    if largest is not None and largest.bytes > cache.limit:
        raise DataError(
            f"data.cache_bytes: {cache.limit:,} is less than the {largest.bytes:,} bytes of {largest.name}; raise it"
        )


def _report(absent: Problems, *, skip: bool) -> None:
    lines = [f"{shard.name}: {problem}" for shard, problem in absent.items()]
    more = [f"and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
    listed = "\n  ".join([*lines[:SHOWN], *more])
    rows = sum(shard.rows for shard in absent)
    if skip:
        warnings.warn(f"{len(absent)} shards with {rows:,} rows are skipped:\n  {listed}", stacklevel=3)
        return
    raise DataError(
        f"{len(absent)} shards with {rows:,} rows are missing or damaged:\n  {listed}\nrestore them, index again, or "
        "skip their rows: --set data.missing_shards=skip"
    )


def _examples(
    index: ShardIndex, split: SplitIndex, files: ShardFiles, decoder: ImageDecoder | None, absent: Problems
) -> Examples:
    present = [number for number, shard in enumerate(split.shards) if shard not in absent and shard.rows]
    if not present:
        raise DataError(f"{index.folder}: no rows of the {split.name} split are left; restore some shards")
    inputs = ShardInputs(index, split, files, decoder, first=_indices_of(split, present[0])[0])
    split.check_labels(len(index.classes))
    labels = GivenLabels(torch.from_numpy(split.labels), len(index.classes))
    whole = Examples(inputs, labels, index.classes, Ids(split))
    if not any(shard in absent for shard in split.shards):
        return whole
    spans = [_indices_of(split, number) for number in present]
    return whole.subset(torch.cat([torch.arange(span.start, span.stop) for span in spans]))


def _indices_of(split: SplitIndex, number: int) -> range:
    end = int(split.ends[number])
    return range(end - split.shards[number].rows, end)
