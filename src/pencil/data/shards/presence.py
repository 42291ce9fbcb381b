"""Are the shards there, and what they were? Sizes before a run, checksums on request."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pencil.data.shards.cache import ShardCache, verify
from pencil.data.shards.index import Shard, ShardIndex
from pencil.data.shards.remote import CutOffError, fetch, remote_size
from pencil.places import is_remote

THREADS = 16  # that ask remote stores for sizes
Problems = dict[Shard, str]


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
    index: ShardIndex, folder: Path, tell: Callable[[int, int, int], None] = lambda *_: None
) -> Problems:
    """Every shard read again, byte for byte; remote ones are fetched to ``folder`` for it and not kept."""
    problems, rows = {}, 0
    for done, shard in enumerate(index.shards, 1):
        problem = _damage(index, shard, folder)
        if problem:
            problems[shard] = problem
        rows += shard.rows
        tell(done, len(index.shards), rows)
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
