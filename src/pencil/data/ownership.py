"""Which rank owns which rows: one row, one owner, one writer, at any number of ranks.

All rows stand in one fixed order that no number of ranks changes, and rank r of W owns the r-th of W stretches of it,
equal to within one row. So a label table saved by two ranks is read by three, each its own stretch. The order steps
through the rows by a golden fraction of their number: data sorted by class spreads evenly over any stretch, and no
permutation has to be held in memory.

Rows that lie in blocks (shards) stay together: the order steps through the blocks in that way, and through the rows of
a block one by one. A rank's stretch then needs few shards, and shares at most the two at its ends with other ranks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from pencil.data.blocks import Blocks

GOLDEN = (math.sqrt(5) - 1) / 2
REACH = 64  # steps tried on either side of the golden one; some of so many share no factor with N


@dataclass(frozen=True, eq=False)
class Order:
    """The fixed order of all rows.

    Attributes:
        num_rows: How many there are.
        blocks: Which of them stay together; None where each stands for itself.
    """

    num_rows: int
    blocks: Blocks | None = None

    def indices_at(self, positions: Tensor) -> Tensor:
        """The indices (B,) of the rows that stand at these positions (B,)."""
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
        """The blocks as they stand in this order: their numbers are positions, not rows."""
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
