"""Shards as files: local ones in their place, remote ones from the cache; kept open, and checked.

Sizes are checked before a run, checksums on request.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from pencil.data.shards.cache import ShardCache, verify
from pencil.data.shards.index import Shard, ShardIndex
from pencil.data.shards.remote import CutOffError, fetch, remote_size
from pencil.errors import DataError
from pencil.places import is_remote
from pencil.reading import open_plain

Value = TypeVar("Value")
OPEN = 32  # shards one process keeps open
Problems = dict[Shard, str]
THREADS = 16  # that ask remote stores for sizes
TRIES = 3  # to open a shard before another process drops it from the cache


class Recent(Generic[Value]):
    """The values used last, up to a weight; a process made by fork begins with none."""

    def __init__(self, limit: int, weigh: Callable[[Value], int] = lambda _: 1) -> None:
        self._limit = limit
        self._weigh = weigh
        self._values: OrderedDict[Hashable, Value] = OrderedDict()
        self._process = os.getpid()

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The value of a key, made if it is not kept."""
        if self._process != os.getpid():
            self._values.clear()
            self._process = os.getpid()
        if key not in self._values:
            self._values[key] = make()
            self._drop_oldest()
        self._values.move_to_end(key)
        return self._values[key]

    def _drop_oldest(self) -> None:
        weight = sum(map(self._weigh, self._values.values()))
        while weight > self._limit and len(self._values) > 1:
            _, value = self._values.popitem(last=False)
            weight -= self._weigh(value)


@dataclass(frozen=True)
class ShardFiles:
    """Where the shards of a split are, and what they must be."""

    index: ShardIndex
    shards: tuple[Shard, ...]
    cache: ShardCache

    def open(self, number: int, opener: Callable[[Path], Value]) -> Value:
        """What ``opener`` makes of a shard's file, which has the size it had when it was indexed."""
        shard = self.shards[number]
        for _ in range(TRIES):
            path = self.path(shard)
            try:
                if path.stat().st_size != shard.bytes:
                    raise DataError(
                        f"{path.stat().st_size:,} bytes now; cut off or changed since it was indexed"
                    )
                return opener(path)
            except FileNotFoundError:
                continue  # another process may have dropped it from the cache
        raise DataError(f"no file {path}")

    def path(self, shard: Shard) -> Path:
        """The file of a shard, fetched where it is remote."""
        return self.cache.path(shard) if is_remote(shard.url) else self.index.locate(shard)


class _Descriptor:
    """An open plain file, closed with its last use."""

    def __init__(self, path: Path) -> None:
        with open_plain(path) as file:
            self.number = os.dup(file.fileno())

    def __del__(self) -> None:
        if hasattr(self, "number"):
            os.close(self.number)


class OpenFiles:
    """Descriptors of the shards used last."""

    def __init__(self, files: ShardFiles) -> None:
        self._files = files
        self._open: Recent[_Descriptor] = Recent(OPEN)

    def descriptor(self, shard: int) -> int:
        """For reading at offsets, which neither threads nor forked processes disturb."""
        return self._open.get(shard, lambda: self._files.open(shard, _Descriptor)).number


def absent_shards(index: ShardIndex, cache: ShardCache) -> Problems:
    """Shards that are missing or have another size than when they were indexed, and what is wrong with each."""

    def problem(shard: Shard) -> str | None:
        if is_remote(shard.url):
            return None if cache.file(shard).exists() else _size_problem(shard, remote_size, shard.url)
        return _size_problem(shard, lambda path: Path(path).stat().st_size, str(index.locate(shard)))

    with ThreadPoolExecutor(THREADS) as threads:
        found = zip(index.shards, threads.map(problem, index.shards), strict=True)
        return {shard: text for shard, text in found if text}


def _size_problem(shard: Shard, size_of: Callable[[str], int | None], place: str) -> str | None:
    try:
        size = size_of(place)
    except FileNotFoundError:
        return f"missing at {place}; {shard.expected}"
    if size is None or size == shard.bytes:
        return None
    return f"{size:,} bytes at {place}; {shard.expected}"


def damaged_shards(
    index: ShardIndex, folder: Path, progress: Callable[[int, int, int], None] = lambda *_: None
) -> Problems:
    """Every shard read again, byte for byte; remote ones are fetched to ``folder`` for it and not kept."""
    problems, rows = {}, 0
    for done, shard in enumerate(index.shards, 1):
        problem = _damage(index, shard, folder)
        if problem:
            problems[shard] = problem
        rows += shard.rows
        progress(done, len(index.shards), rows)
    return problems


def _damage(index: ShardIndex, shard: Shard, folder: Path) -> str | None:
    path = folder / "shard" if is_remote(shard.url) else index.locate(shard)
    place = shard.url if is_remote(shard.url) else str(path)
    try:
        if is_remote(shard.url):
            fetch(shard.url, path)
        verify(shard, path)
    except FileNotFoundError:
        return f"missing at {place}; {shard.expected}"
    except CutOffError as error:
        return f"{place}: {error}"
    return None
