"""The features of a data set's rows: from the cache where they are there, otherwise encoded, divided among ranks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from pencil.data import Inputs, Shown, TensorInputs, row_keys, shown
from pencil.embed.cache import FeatureCache
from pencil.embed.encode import encode_rows
from pencil.embed.encoder import Encoder

BATCH = 32
PART_SECONDS = 20.0  # what a killed run loses at most
LINE_SECONDS = 2.0
Progress = Callable[[int, int], None]
"""Called with the rows encoded so far and all rows to encode."""


@dataclass(frozen=True)
class EmbeddedInputs:
    """Features in place of the inputs that they were made from.

    Attributes:
        values: (N, D) the features.
        base: The original inputs, for people to look at.
        keys: (N,) the keys of the rows' content; of their features where the encoder is not cached.
    """

    values: Tensor
    base: Inputs
    keys: Tensor

    def __len__(self) -> int:
        return len(self.values)

    def fetch(self, indices: Tensor) -> Tensor:
        """The features (B, D) of some rows (B,)."""
        return self.values[indices]

    def shown(self, index: int) -> Shown | None:
        """The original of a row."""
        return shown(self.base, index)


@dataclass(frozen=True)
class Ranks:
    """Which of several processes this is, and how they wait for each other."""

    rank: int = 0
    world_size: int = 1
    wait: Callable[[], object] = lambda: None


def embedded(
    inputs: Inputs, encoder: Encoder, *, ranks: Ranks | None = None, progress: Progress = lambda *_: None
) -> EmbeddedInputs:
    """Replace inputs by their features.

    Each rank encodes its share of the rows that are not in the cache. What is still missing afterwards, because the
    ranks do not share the cache's folder, each rank encodes itself.
    """
    ranks, keys, cached = ranks or Ranks(), row_keys(inputs), getattr(encoder, "cached", True)
    with _cache_of(encoder, cached) as cache:
        missing = _missing(cache, keys)
        fill(cache, inputs, encoder, keys, missing[ranks.rank :: ranks.world_size], progress)
        ranks.wait()
        if len(missing):
            fill(cache, inputs, encoder, keys, _missing(cache, keys), progress)
        values = cache.read(keys)[0]
    return EmbeddedInputs(values, inputs, keys if cached else row_keys(TensorInputs(values)))


@contextmanager
def _cache_of(encoder: Encoder, cached: bool) -> Iterator[FeatureCache]:
    """The user's cache for this encoder, or one for this time alone."""
    if cached:
        yield FeatureCache.of(encoder.mark, encoder.size)
        return
    with TemporaryDirectory(prefix="pencil-") as folder:
        yield FeatureCache(Path(folder), encoder.size)


def fill(
    cache: FeatureCache, inputs: Inputs, encoder: Encoder, keys: Tensor, rows: Tensor, progress: Progress
) -> None:
    """Encode some rows (M,) and add them to the cache, a part every few seconds."""
    done: list[Tensor] = []
    begun, spoken, kept = time.monotonic(), time.monotonic(), 0
    for start in range(0, len(rows), BATCH):
        batch = rows[start : start + BATCH]
        done.append(encode_rows(inputs, encoder, batch.tolist()))
        now, end = time.monotonic(), start + len(batch)
        if now - begun >= PART_SECONDS or end == len(rows):
            cache.add(keys[rows[kept:end]], torch.cat(done))
            begun, kept, done = now, end, []
        if now - spoken >= LINE_SECONDS or (end == len(rows) and start):
            progress(end, len(rows))
            spoken = now


def _missing(cache: FeatureCache, keys: Tensor) -> Tensor:
    """The rows (M,) that are not in the cache; of rows with equal content only the first."""
    _, there = cache.read(keys)
    ordered, order = keys.sort(stable=True)
    first = torch.ones(len(keys), dtype=torch.bool)
    first[order[1:]] = ordered[1:] != ordered[:-1]
    return (~there & first).nonzero()[:, 0]
