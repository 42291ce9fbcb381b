"""Which rows make which batch: a pure function of seed, epoch, step, and the ranks of the epoch's earlier steps.

A rank draws its batches from the rows it owns, reshuffled every epoch. Nothing is padded, repeated or dropped, not even
where a run is resumed in mid-epoch by another number of ranks: the rows that the epoch's earlier steps visited follow
from which ranks took them, and the remaining rows are divided among the ranks that continue.

Where rows are stored in blocks (shards), a rank shuffles its blocks and then the rows within windows of a few blocks,
so that a shard is read in one part of an epoch only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from pencil.data.order import Blocks, span
from pencil.data.randomness import mixed_seed
from pencil.errors import DataError

WINDOW = 8  # blocks whose rows are shuffled together


@dataclass(frozen=True)
class Stretch:
    """Steps of one epoch taken by one number of ranks: those before ``until``, from where the stretch before ended."""

    world_size: int
    until: int


@dataclass(frozen=True)
class EpochSampler:
    """Batches of one rank's rows, numbered from 0 in the order it owns them.

    Every epoch is cut into ``steps`` batches whose sizes differ by at most one, instead of full batches and a small
    rest: no step counts more than another, and every rank takes equally many.

    Attributes:
        num_rows: Rows of all ranks together.
        batch_size: The largest batch of all ranks together (up to one more per rank where they do not divide it).
        seed: Chooses the order of every epoch.
        rank: This process among ``world_size``.
        world_size: How many processes share the rows.
        blocks: How the positions of the fixed order divide into blocks (``Order.placed``); None for no blocks.
        window: Blocks whose rows are shuffled together.
    """

    num_rows: int
    batch_size: int
    seed: int = 0
    rank: int = 0
    world_size: int = 1
    blocks: Blocks | None = None
    window: int = WINDOW

    def __post_init__(self) -> None:
        if self.num_rows // self.world_size < self.steps:
            raise DataError(
                f"{self.num_rows} rows in batches of {self.batch_size} leave some of {self.world_size} ranks without "
                "rows in a step; use fewer processes or a larger train.batch_size"
            )

    @property
    def steps(self) -> int:
        """Batches in an epoch, for any number of ranks."""
        return -(-self.num_rows // self.batch_size)

    def batches(self, epoch: int, start: int = 0, earlier: Sequence[Stretch] = ()) -> Iterator[Tensor]:
        """The epoch's batches of local row numbers, from step ``start`` on."""
        order = self._order(epoch, self.rank, self.world_size, len(earlier), self._visited(epoch, earlier))
        order = order - span(self.num_rows, self.rank, self.world_size).start
        for step in range(start, self.steps):
            yield order[self._cut(len(order), step, earlier) : self._cut(len(order), step + 1, earlier)]

    def global_size(self, epoch: int, step: int, earlier: Sequence[Stretch] = ()) -> int:
        """How many examples all ranks together see at a step; no rank needs to ask another."""
        counts = _left_counts(self, epoch, tuple(earlier))
        return sum(self._cut(count, step + 1, earlier) - self._cut(count, step, earlier) for count in counts)

    def _cut(self, count: int, step: int, earlier: Sequence[Stretch]) -> int:
        """How many of ``count`` rows are visited once ``step`` steps of the epoch are done."""
        begun = earlier[-1].until if earlier else 0
        return (step - begun) * count // (self.steps - begun)

    def _visited(self, epoch: int, earlier: Sequence[Stretch]) -> Tensor | None:
        """(num_rows,) bool: the positions that the epoch's earlier stretches visited, replayed one by one."""
        if not earlier:
            return None
        visited = torch.zeros(self.num_rows, dtype=torch.bool)
        for index, stretch in enumerate(earlier):
            for rank in range(stretch.world_size):
                order = self._order(epoch, rank, stretch.world_size, index, visited)
                visited[order[: self._cut(len(order), stretch.until, earlier[:index])]] = True
        return visited

    def _order(self, epoch: int, rank: int, world_size: int, stretch: int, visited: Tensor | None) -> Tensor:
        """The positions that a rank has yet to visit when the epoch's stretch of this number begins, shuffled."""
        owned = span(self.num_rows, rank, world_size)
        left = torch.arange(owned.start, owned.stop)
        if visited is not None:
            left = left[~visited[owned.start : owned.stop]]
        generator = torch.Generator().manual_seed(mixed_seed(self.seed, epoch, stretch, world_size, rank))
        shuffled = torch.randperm(len(left), generator=generator)
        if self.blocks is not None:
            windows = _windows(self.blocks.of(left), self.window, generator)
            shuffled = shuffled[windows[shuffled].argsort(stable=True)]
        return left[shuffled]


def _windows(blocks: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """(N,) for rows of these blocks (N,), neighbours together: the window each is in once the blocks are shuffled."""
    runs, numbers = torch.unique_consecutive(blocks, return_inverse=True)
    return (torch.randperm(len(runs), generator=generator) // size)[numbers]


@lru_cache(maxsize=4)
def _left_counts(sampler: EpochSampler, epoch: int, earlier: tuple[Stretch, ...]) -> tuple[int, ...]:
    """How many rows each rank has yet to visit in the epoch."""
    spans = [span(sampler.num_rows, rank, sampler.world_size) for rank in range(sampler.world_size)]
    visited = sampler._visited(epoch, earlier)
    if visited is None:
        return tuple(map(len, spans))
    return tuple(int((~visited[owned.start : owned.stop]).sum()) for owned in spans)
