"""Rows of a data set through an encoder, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from pencil.data import Image, Inputs, Record, Shown, Text, shown
from pencil.embed.encoder import Encoder, Kind
from pencil.errors import DataError

BATCH = 32
FITTING: dict[Kind, tuple[type, ...]] = {
    "images": (Image,),
    "texts": (Text, Record),  # a record is encoded as a line per field
    "records": (Record,),
}
"""Which rows an encoder takes."""
WORDS = {Image: "an image", Text: "a text", Record: "a record"}


def encoded(
    inputs: Inputs, encoder: Encoder, rows: Tensor | Sequence[int], batch: int = BATCH
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield row numbers (B,) and their features (B, D), in the order of ``rows``."""
    for part in torch.as_tensor(rows, dtype=torch.int64).split(batch):
        if len(part):
            yield part, encode_rows(inputs, encoder, part.tolist())


def encode_rows(inputs: Inputs, encoder: Encoder, rows: Sequence[int]) -> Tensor:
    """Features (B, D) of some rows.

    Raises:
        DataError: The encoder does not take such rows, or returns values that are not finite.
    """
    found = [(row, shown(inputs, row)) for row in rows]
    features = encoder.encode([_fitting(encoder, row, original) for row, original in found])
    good = features.isfinite().all(dim=1)
    if not bool(good.all()):
        row = rows[int((~good).nonzero()[0])]
        raise DataError(
            f"embedding model {encoder.name!r} returned values that are not finite for row {row}; check that row, or "
            "choose another model"
        )
    return features


def _fitting(encoder: Encoder, row: int, original: Shown | None) -> Shown:
    if original is None:
        raise DataError(
            f"embedding model {encoder.name!r} takes {encoder.takes}, but the data's rows are plain numbers; they are "
            "features already: leave data.embed out"
        )
    if not isinstance(original, FITTING[encoder.takes]):
        raise DataError(
            f"embedding model {encoder.name!r} takes {encoder.takes}, but row {row} is {WORDS[type(original)]}; choose "
            "another model"
        )
    return original
