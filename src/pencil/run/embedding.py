"""Features of a pretrained encoder in place of the examples' own inputs: ``data.embed``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from pencil.data import Examples, Unlabelled
from pencil.embed import Encoder, Ranks, embedded, open_encoder
from pencil.engine import Runtime
from pencil.kinds import DataSection
from pencil.run.sources import Prepared

Progress = Callable[[int, int], None]
_Rows = TypeVar("_Rows", bound=Examples | Unlabelled)


def with_features(
    prepared: Prepared, data: DataSection, runtime: Runtime, progress: Progress = lambda *_: None
) -> Prepared:
    """The examples with features as inputs if ``data.embed`` names an encoder; ``source`` keeps the originals."""
    if data.embed is None:
        return prepared
    encoder = open_encoder(data.embed, str(runtime.device))
    parts = {
        name: rows_with_features(rows, encoder, runtime, progress)
        for name in ("train", "validation", "test")
        if (rows := getattr(prepared, name)) is not None
    }
    return replace(prepared, encoder=encoder.mark, **parts)


def rows_with_features(
    rows: _Rows, encoder: Encoder, runtime: Runtime, progress: Progress = lambda *_: None
) -> _Rows:
    """The same rows with features as inputs; the ranks divide the work."""
    ranks = Ranks(runtime.rank, runtime.world_size, runtime.barrier)
    return replace(rows, inputs=embedded(rows.inputs, encoder, ranks=ranks, progress=progress))
