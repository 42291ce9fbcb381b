"""Rows that lie together in the source, such as those of one shard: reading one makes its neighbours cheap.

K: blocks. Every row is in one block, and the rows of a block are numbered consecutively.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

SPREAD = 64  # blocks that a sample comes from at least, where there are so many


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
        """(B,) the part of the source that each row (B,) lies in."""
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
