"""Which rank owns which rows: one row, one owner, one writer, at any number of ranks.

All rows stand in one fixed order that no number of ranks changes, and rank r of W owns the r-th of W stretches of it,
equal to within one row. So a label table saved by two ranks is read by three, each its own stretch. The order steps
through the rows by a golden fraction of their number: data sorted by class spreads evenly over any stretch, and no
permutation has to be held in memory.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

GOLDEN = (math.sqrt(5) - 1) / 2
REACH = 64  # steps tried on either side of the golden one; some of so many share no factor with N


def span(num_rows: int, rank: int = 0, world_size: int = 1) -> range:
    """The positions of the fixed order that a rank owns."""
    return range(rank * num_rows // world_size, (rank + 1) * num_rows // world_size)


def rows_at(num_rows: int, positions: Tensor) -> Tensor:
    """The rows that stand at these positions of the fixed order."""
    return positions * stride(num_rows) % max(num_rows, 1)


def owned_rows(num_rows: int, rank: int = 0, world_size: int = 1) -> Tensor:
    """The rows a rank owns, in the fixed order."""
    owned = span(num_rows, rank, world_size)
    return rows_at(num_rows, torch.arange(owned.start, owned.stop))


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
