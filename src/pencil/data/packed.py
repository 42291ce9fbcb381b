"""Many texts in one block of memory: a million Python strings would take several times as much."""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Iterable, Sequence
from typing import Any


class PackedTexts(Sequence[str]):
    """Texts as UTF-8 in one block, decoded when they are asked for."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._block = bytearray()
        self._ends = array("q", [0])
        for text in texts:
            self.append(text)

    def append(self, text: str) -> None:
        """Add a text at the end."""
        self._block += text.encode("utf-8", "surrogatepass")
        self._ends.append(len(self._block))

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, index: Any) -> Any:
        found = range(len(self))[index]
        return self._text(found) if isinstance(found, int) else [self._text(row) for row in found]

    def _text(self, row: int) -> str:
        return self._block[self._ends[row] : self._ends[row + 1]].decode("utf-8", "surrogatepass")

    @property
    def checksum(self) -> int:
        """Of all texts and where they end."""
        return zlib.crc32(self._ends.tobytes(), zlib.crc32(self._block))
