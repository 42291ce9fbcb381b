"""Where label rows live: one small interface, unaware of any method, and two stores of rows, whole and cut.

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
from pencil.errors import ConfigError, RunError

CHUNK = 1 << 16  # rows handled at once where all of them are visited,
ENTRIES = 1 << 24  # unless they are so wide that they have more entries than this

SHORT = 1 << 16  # classes that 16 bits can number
MOST = 1 << 24  # and 24 bits
LARGEST = torch.finfo(torch.float16).max

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


class DenseStore:
    """Whole rows as one float32 matrix (N, W), in memory or, given a folder, mapped from a file there."""

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


class TopStore:
    """Rows cut to their k largest entries, in memory or, given a folder, mapped from a file there.

    A row is a record of 16-bit words, 34 bytes at k = 8 with up to 65,536 classes: k class numbers of 16 bits (k more
    bytes with more classes), k entries and the shared entry of all other classes in half precision. Records
    are contiguous, so a row is read in one piece.
    """

    def __init__(self, num_rows: int, num_classes: int, k: int, folder: Path | None = None) -> None:
        if not 1 <= k < num_classes <= MOST:
            raise ConfigError(
                f"store: 'top:{k}' for {num_classes} classes; k must be at least 1 and below the number of classes, "
                f"which may be {MOST:,} at most: use 'dense'"
            )
        self.num_classes, self.k = num_classes, k
        self._records = allocate((num_rows, words(num_classes, k)), torch.int16, folder)

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return self._records.shape[0]

    @property
    def row_width(self) -> int:
        """K entries and the shared one."""
        return self.k + 1

    @property
    def bytes_per_row(self) -> int:
        """What a row takes."""
        return 2 * self._records.shape[1]

    def gather(self, indices: Tensor) -> TopRows:
        """The rows at these indices (B,)."""
        return self.unpacked(self._records.index_select(0, indices))

    def scatter(self, indices: Tensor, rows: TopRows) -> None:
        """Write rows at these indices (B,)."""
        self._records.index_copy_(0, indices.long(), self.packed(rows))

    def state(self) -> dict[str, Tensor]:
        """The records themselves, under ``top``."""
        return {"top": self._records}

    def packed(self, rows: TopRows) -> Tensor:
        """Records (B, words) int16."""
        k, high = self.k, self._high
        records = torch.empty(len(rows), self._records.shape[1], dtype=torch.int16)
        records[:, :k] = rows.classes  # int16 keeps the low 16 bits
        entries = torch.cat([rows.values, rows.rest], dim=1).clamp_(-LARGEST, LARGEST).half()
        records[:, k + high :] = entries.view(torch.int16)
        if high:
            upper = torch.zeros(len(rows), 2 * high, dtype=torch.uint8)
            upper[:, :k] = rows.classes >> 16
            records[:, k : k + high] = upper.view(torch.int16)
        return records

    def unpacked(self, records: Tensor) -> TopRows:
        """The rows that records hold."""
        k, high = self.k, self._high
        classes = records[:, :k].long()
        if self.num_classes > SHORT // 2:
            classes.bitwise_and_(0xFFFF)  # what int16 took for a sign
        if high:
            upper = records[:, k : k + high].contiguous().view(torch.uint8)
            classes += upper[:, :k].long() << 16
        entries = records[:, k + high :].contiguous().view(torch.float16).float()
        return TopRows(classes, entries[:, :k], entries[:, k:], self.num_classes)

    @property
    def _high(self) -> int:
        return _high_words(self.k) if self.num_classes > SHORT else 0


def words(num_classes: int, k: int) -> int:
    """How many times 16 bits a record has."""
    return 2 * k + 1 + (_high_words(k) if num_classes > SHORT else 0)


def _high_words(k: int) -> int:
    return (k + 1) // 2


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
