"""The order of rows: which are stored together, the fixed order of all, and which rank owns which.

One row has one owner and one writer, at any number of ranks. All rows have a fixed order that does not depend on the
number of ranks, and rank r of W owns the r-th of W equal parts of it (to within one row). So a label table saved by two
ranks can be read by three, each its own part. The order steps through the rows by a golden fraction of their number:
data sorted by class spreads evenly over any part, and no permutation has to be held in memory.

Rows that are stored together (shards) form blocks and stay together: the order steps through the blocks in that way,
and through the rows of a block one by one. A rank's part then needs few shards, and shares at most the two at its ends
with other ranks.

K: blocks. Every row is in one block, and the rows of a block are numbered consecutively.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

SPREAD = 64  # blocks that a sample comes from at least, where there are so many
GOLDEN = (math.sqrt(5) - 1) / 2
REACH = 64  # steps tried on either side of the golden one; some of so many share no factor with N


@dataclass(frozen=True, eq=False)
class Blocks:
    """How rows divide into blocks.

    Attributes:
        sizes: (K,) rows in each block, in the order of the rows.
        sources: (K,) which part of the source each block is; a view of some rows keeps its base's numbers.
    """

    sizes: Tensor
    sources: Tensor

    @classmethod
    def of_sizes(cls, sizes: Tensor) -> Blocks:
        """The blocks of a source itself, numbered from 0."""
        return cls(sizes, torch.arange(len(sizes)))

    def __len__(self) -> int:
        return len(self.sizes)

    @cached_property
    def ends(self) -> Tensor:
        """(K,) the row after each block's last."""
        return self.sizes.cumsum(0)

    @cached_property
    def starts(self) -> Tensor:
        """(K,) each block's first row."""
        return self.ends - self.sizes

    def of(self, indices: Tensor) -> Tensor:
        """(B,) the block of each row (B,)."""
        return torch.bucketize(indices, self.ends, right=True)

    def sources_of(self, indices: Tensor) -> Tensor:
        """(B,) the part of the source that holds each row (B,)."""
        return self.sources[self.of(indices)]

    def subset(self, indices: Tensor) -> Blocks:
        """The blocks of some rows, renumbered from 0 in the order given: runs of rows from one block."""
        blocks, sizes = torch.unique_consecutive(self.of(indices), return_counts=True)
        return Blocks(sizes, self.sources[blocks])

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Sorted indices of about ``count`` rows, from few blocks but no fewer than ``SPREAD``, spread over each."""
        mean = -(-int(self.ends[-1]) // len(self))
        chosen = (
            torch.randperm(len(self), generator=generator)[: max(SPREAD, -(-count // mean))].sort().values
        )
        share = -(-count // len(chosen))
        return torch.cat([self._spread(block, share) for block in chosen.tolist()])

    def _spread(self, block: int, count: int) -> Tensor:
        """The indices of at most ``count`` rows of a block, evenly spaced."""
        size = int(self.sizes[block])
        taken = min(count, size)
        return self.starts[block] + torch.arange(taken) * size // max(taken, 1)

    def permuted(self, order: Tensor) -> Blocks:
        """The same blocks in another order (K,)."""
        return Blocks(self.sizes[order], self.sources[order])


@dataclass(frozen=True, eq=False)
class Order:
    """The fixed order of all rows.

    Attributes:
        num_rows: How many there are.
        blocks: Which of them stay together; None where none do.
    """

    num_rows: int
    blocks: Blocks | None = None

    def indices_at(self, positions: Tensor) -> Tensor:
        """The indices (B,) of the rows at these positions (B,)."""
        if self.blocks is None or self.placed is None:
            return indices_at(self.num_rows, positions)
        place = self.placed.of(positions)
        return self.blocks.starts[self._turns[place]] + positions - self.placed.starts[place]

    def owned_indices(self, rank: int = 0, world_size: int = 1) -> Tensor:
        """The indices of the rows a rank owns, in this order."""
        owned = span(self.num_rows, rank, world_size)
        return self.indices_at(torch.arange(owned.start, owned.stop))

    @cached_property
    def placed(self) -> Blocks | None:
        """The blocks in this order: their numbers are positions, not rows."""
        return None if self.blocks is None else self.blocks.permuted(self._turns)

    @cached_property
    def _turns(self) -> Tensor:
        """(K,) the blocks, one after the other."""
        count = 0 if self.blocks is None else len(self.blocks)
        return indices_at(count, torch.arange(count))


def span(num_rows: int, rank: int = 0, world_size: int = 1) -> range:
    """The positions of the fixed order that a rank owns."""
    return range(rank * num_rows // world_size, (rank + 1) * num_rows // world_size)


def indices_at(num_rows: int, positions: Tensor) -> Tensor:
    """The rows at these positions where none stay together; also the order of the blocks, where some do."""
    return positions * stride(num_rows) % max(num_rows, 1)


def owned_indices(num_rows: int, rank: int = 0, world_size: int = 1) -> Tensor:
    """The indices of the rows a rank owns where none stay together, in the fixed order."""
    return Order(num_rows).owned_indices(rank, world_size)


def stride(num_rows: int) -> int:
    """A step near the golden fraction of the rows that meets them all, and spreads them best among its neighbours.

    Only the golden fraction itself spreads evenly at every scale; a whole step near it may circle almost in place.
    """
    golden = round(num_rows * GOLDEN)
    near = range(max(golden - REACH, 1), max(min(golden + REACH, num_rows - 1), 1) + 1)
    return min(
        (step for step in near if math.gcd(step, num_rows) == 1), key=lambda step: _unevenness(step, num_rows)
    )


def _unevenness(step: int, num_rows: int) -> int:
    """The sum of the quotients of Euclid's algorithm, which bounds how far any stretch is from an even share."""
    total = 0
    while step:
        total += num_rows // step
        step, num_rows = num_rows % step, step
    return total
