"""The size at which images are trained on from scratch, from the sizes of a sample of them."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from statistics import median

from pencil.data.images import Extent, ImageDecoder
from pencil.data.inputs import Inputs, blocks_of, content
from pencil.errors import ExampleError

SIZES = (32, 48, 64, 96)
SAMPLED = 64
"""Images whose sizes are read."""


def size_for(extents: Sequence[Extent]) -> int:
    """The largest of ``SIZES`` that does not exceed the median of the shorter sides; at least the smallest one."""
    return max((size for size in SIZES if extents and size <= typical_side(extents)), default=SIZES[0])


def typical_side(extents: Sequence[Extent]) -> float:
    """The median of the shorter sides of images."""
    return median(min(extent) for extent in extents)


def sampled_extents(inputs: Inputs) -> list[Extent]:
    """Width and height of some images as stored, at even distances; of shards, which may be remote, in the first."""
    blocks = blocks_of(inputs)
    rows = len(inputs) if blocks is None else int(blocks.sizes[0])
    return list(_extents(inputs, range(0, rows, -(-rows // SAMPLED)))) if rows else []


def _extents(inputs: Inputs, rows: Sequence[int]) -> Iterator[Extent]:
    decoder = ImageDecoder()
    for row in rows:
        try:
            yield decoder.extent(io.BytesIO(content(inputs, row)), f"row {row}")
        except ExampleError:  # reading the rows for the run reports it
            continue
