"""Label rows in a checkpoint: raw files of at most ``PIECE`` rows, named by their position in the order of all rows.

So each rank, of any number of ranks, finds the rows it owns and reads nothing else. Rows change while they are saved:
whatever overwrites a row first gives its old value to the snapshot, which writes that value.
"""

from __future__ import annotations

import os
import threading
import zlib
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pencil.errors import RunError

PIECE = 1 << 20
BLOCK = 1 << 24  # bytes written at once
AT_ONCE = 3  # pieces written in parallel
Fingerprint = list[int]
"""Size and checksum of a file."""


@dataclass
class RowSnapshot:
    """A store's rows as they were when this was made, although they change afterwards.

    Attributes:
        state: The store's tensors (N, ...), shared with it.
        first: The position of its first row in the fixed order of all rows.
        at_rest: Whether nothing writes to the rows meanwhile, so that they need no copy.
    """

    state: dict[str, Tensor]
    first: int = 0
    at_rest: bool = True
    _overwritten: list[tuple[Tensor, dict[str, Tensor]]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _open: bool = True

    def note(self, indices: Tensor) -> None:
        """The rows at ``indices`` (B,) are about to be overwritten."""
        with self._lock:
            if self._open:
                before = {name: value[indices] for name, value in self.state.items()}
                self._overwritten.append((indices, before))

    def pieces(self) -> Iterator[tuple[str, Tensor]]:
        """(file name, rows) of every piece, one after another; after the last one ``note`` does nothing."""
        for name, value in self.state.items():
            for start in range(0, len(value) if value[:1].numel() else 0, PIECE):
                yield file_name(name, self.first + start), self._piece(name, start)
        self.close()

    def close(self) -> None:
        """Free the memory; ``note`` does nothing any more."""
        with self._lock:
            self._open = False
            self._overwritten.clear()

    def _piece(self, name: str, start: int) -> Tensor:
        with self._lock:
            piece = self.state[name][start : start + PIECE]
            if self.at_rest:
                return piece
            piece = piece.clone()
            for indices, before in reversed(self._overwritten):  # the oldest value is put back last
                inside = (indices >= start) & (indices < start + len(piece))
                piece[indices[inside] - start] = before[name][inside]
            return piece


def file_name(name: str, position: int) -> str:
    """The file of the piece that begins at a position."""
    return f"rows-{name}-{position:012d}"


def write_rows(folder: Path, rows: RowSnapshot) -> dict[str, Fingerprint]:
    """Write every piece; returns the fingerprints of the files.

    A piece waits for memory, checksum and disk in turn, so a few are written in parallel.
    """
    under_way: deque[tuple[str, Future[Fingerprint]]] = deque()
    marks: dict[str, Fingerprint] = {}
    with ThreadPoolExecutor(AT_ONCE) as writers:
        for name, piece in rows.pieces():
            if len(under_way) == AT_ONCE:
                done, written = under_way.popleft()
                marks[done] = written.result()
            under_way.append((name, writers.submit(_write, folder / name, piece)))
        return marks | {name: written.result() for name, written in under_way}


def _write(path: Path, piece: Tensor) -> Fingerprint:
    content = _bytes(piece.contiguous())
    with path.open("wb") as file:  # buffered: it writes all of a block, or raises where the disk is full
        for start in range(0, len(content), BLOCK):
            file.write(content[start : start + BLOCK])
        file.flush()
        os.fsync(file.fileno())
    return [len(content), zlib.crc32(content)]


def read_rows(folder: Path, state: dict[str, Tensor], owned: range) -> None:
    """Fill a store's tensors with the rows at the positions it owns, whichever ranks wrote them."""
    for name, value in state.items():
        if not value[:1].numel():
            continue
        found = sum(_read(path, value, owned) for path in folder.glob(f"rows-{name}-*"))
        if found != len(owned):
            raise RunError(
                f"checkpoint {folder.name} holds {found} of {len(owned)} rows of the kind {name!r}; "
                "resume with the store and the data the run began with"
            )


def _read(path: Path, value: Tensor, owned: range) -> int:
    """Read those of our rows that a file holds into place; returns how many."""
    width = value[:1].numel() * value.itemsize
    position = int(path.name.rsplit("-", 1)[1])
    first = max(position, owned.start)
    last = min(position + path.stat().st_size // width, owned.stop)
    if first >= last:
        return 0
    target = _bytes(value[first - owned.start : last - owned.start])
    with path.open("rb", buffering=0) as file:
        file.seek((first - position) * width)
        done = 0
        while done < len(target):
            read = file.readinto(target[done : done + BLOCK])
            if not read:
                raise RunError(
                    f"{path}: ends after {done:,} of {len(target):,} bytes; it was cut while it was read"
                )
            done += read
    return last - first


def _bytes(values: Tensor) -> memoryview:
    """The memory of a tensor."""
    array: Any = values.view(torch.uint8).numpy()
    return memoryview(array).cast("B")
