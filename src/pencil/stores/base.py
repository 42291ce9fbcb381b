"""Where label rows live: one small interface, unaware of any method.

A row is whatever a method keeps for one example (for PENCIL, its label logits). A store holds the rows its
process owns: whole or cut to the largest entries, in memory or on disk. All other code sees batches.
"""

from __future__ import annotations

import math
import os
import tempfile
from pathlib import Path
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from pencil.algorithm import TopRows
from pencil.durable import make_folder
from pencil.errors import RunError

CHUNK = 1 << 16  # rows handled at once where all of them are visited,
ENTRIES = 1 << 24  # unless they are so wide that they have more entries than this

R = TypeVar("R", Tensor, TopRows)


class RowStore(Protocol[R]):
    """Rows by index, gathered and scattered in batches R: whole (B, W), or cut."""

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        ...

    @property
    def row_width(self) -> int:
        """How many entries a gathered row holds."""
        ...

    def gather(self, indices: Tensor) -> R:
        """The rows, float32, at these indices (B,)."""
        ...

    def scatter(self, indices: Tensor, rows: R) -> None:
        """Write rows at these indices (B,), each at most once."""
        ...

    def state(self) -> dict[str, Tensor]:
        """The tensors that are this store, shared and not copied: save them, or load into them in place."""
        ...


def rows_at_once(row_width: int) -> int:
    """How many rows to handle at a time where all are visited."""
    return min(CHUNK, max(1, ENTRIES // max(row_width, 1)))


def allocate(shape: tuple[int, ...], dtype: torch.dtype, folder: Path | None = None) -> Tensor:
    """Zeros in memory, or in a file in ``folder`` that the system pages in and out and that ends with the process.

    The file has no name once it is mapped: nothing is left behind, whatever happens. Its space is taken before: writing
    to a mapped file on a full disk would kill the process.
    """
    size = math.prod(shape)
    if folder is None or size == 0:
        return torch.zeros(shape, dtype=dtype)
    try:
        make_folder(folder)
        with tempfile.NamedTemporaryFile(dir=folder, prefix="rows-") as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size * dtype.itemsize)
            else:  # macOS
                file.truncate(size * dtype.itemsize)
            return torch.from_file(file.name, shared=True, size=size, dtype=dtype).view(shape)
    except OSError as error:
        raise RunError(
            f"{folder}: no room for {size * dtype.itemsize:,} bytes of label rows ({error.strerror or error}); make "
            "room there, or set store to one that needs less, such as top:8:mapped"
        ) from error
