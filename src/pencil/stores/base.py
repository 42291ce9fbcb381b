"""Where label rows live: one small interface, unaware of any method.

A row is whatever a method keeps for one example (for PENCIL, its label logits). A store holds the rows its
process owns; how (dense, on disk, only the largest entries) is its own affair. Everything else sees batches.
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class RowStore(Protocol):
    """Rows by number, gathered and scattered in batches."""

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        ...

    @property
    def row_width(self) -> int:
        """How many values a gathered row has (W)."""
        ...

    def gather(self, rows: Tensor) -> Tensor:
        """The values (B, W), float32, of the rows numbered (B,)."""
        ...

    def scatter(self, rows: Tensor, values: Tensor) -> None:
        """Write values (B, W) to the rows numbered (B,), each at most once."""
        ...

    def state(self) -> dict[str, Tensor]:
        """The tensors that are this store, shared and not copied: save them, or load into them in place."""
        ...
