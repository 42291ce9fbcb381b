"""Rows cut to their k largest entries, a record of a few bytes each: 34 at k = 8 with up to 65,536 classes.

A record is k class numbers of 16 bits (and k more bytes where there are more classes), k entries and the shared entry
of all other classes in half precision. Records are contiguous, so a row is read in one piece.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from pencil.algorithm import TopRows
from pencil.errors import ConfigError
from pencil.stores.base import allocate

SHORT = 1 << 16  # classes that 16 bits can number
MOST = 1 << 24  # and 24 bits
LARGEST = torch.finfo(torch.float16).max


class TopStore:
    """Records (N, words) of 16 bits in memory or, given a folder, mapped from a file there."""

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
