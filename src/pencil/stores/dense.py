"""Rows as one float32 matrix in memory: right up to some gigabytes."""

from __future__ import annotations

import torch
from torch import Tensor


class DenseStore:
    """A matrix (N, W) on a device."""

    def __init__(self, num_rows: int, row_width: int, device: torch.device | str = "cpu") -> None:
        self._values = torch.zeros(num_rows, row_width, device=device)

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return self._values.shape[0]

    @property
    def row_width(self) -> int:
        """How many values a row has."""
        return self._values.shape[1]

    def gather(self, rows: Tensor) -> Tensor:
        """The values (B, W) of the rows numbered (B,)."""
        return self._values.index_select(0, rows.to(self._values.device))

    def scatter(self, rows: Tensor, values: Tensor) -> None:
        """Write values (B, W) to the rows numbered (B,)."""
        device = self._values.device
        self._values.index_copy_(0, rows.to(device).long(), values.detach().to(device, torch.float32))

    def state(self) -> dict[str, Tensor]:
        """The matrix itself, under ``values``."""
        return {"values": self._values}
