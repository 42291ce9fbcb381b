"""Whole rows as one float32 matrix: right while it fits."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from pencil.stores.base import allocate


class DenseStore:
    """A matrix (N, W) in memory or, given a folder, mapped from a file there."""

    def __init__(self, num_rows: int, row_width: int, folder: Path | None = None) -> None:
        self._values = allocate((num_rows, row_width), torch.float32, folder)

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return self._values.shape[0]

    @property
    def row_width(self) -> int:
        """How many values a row has."""
        return self._values.shape[1]

    def gather(self, indices: Tensor) -> Tensor:
        """The rows (B, W) at these indices (B,)."""
        return self._values.index_select(0, indices)

    def scatter(self, indices: Tensor, rows: Tensor) -> None:
        """Write rows (B, W) at these indices (B,)."""
        self._values.index_copy_(0, indices.long(), rows.detach().to("cpu", torch.float32))

    def state(self) -> dict[str, Tensor]:
        """The matrix itself, under ``values``."""
        return {"values": self._values}
