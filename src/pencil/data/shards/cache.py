"""Remote shards kept on this machine: fetched whole, verified, the longest unused dropped when there are too many.

Several processes may share the folder. A shard is fetched under another name and renamed, so that it is whole or
absent; one that is dropped while another process reads it stays readable for that process.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
import zlib
from dataclasses import dataclass
from pathlib import Path

from pencil.data.shards.index import Shard
from pencil.data.shards.remote import CutOffError, fetch
from pencil.durable import make_folder, publish
from pencil.errors import DataError
from pencil.reading import open_plain

PARTIAL = ".partial-"
OWN = re.compile(r"[0-9a-f]{16}-")  # how the name of a shard kept here begins
LEFTOVER = re.compile(rf"{re.escape(PARTIAL)}\d+-\d+")
LEFTOVER_SECONDS = 24 * 3600  # after which what a killed process left is removed


def default_folder() -> Path:
    """Where shards are kept by default: the user's cache folder."""
    home = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(home) / "pencil" / "shards"


@dataclass(frozen=True)
class ShardCache:
    """A folder of fetched shards.

    Attributes:
        folder: The folder.
        limit: Their bytes together, at most; the one fetched last always stays.
    """

    folder: Path
    limit: int

    def path(self, shard: Shard) -> Path:
        """The shard's file here, fetched if it must be."""
        file = self.file(shard)
        try:
            os.utime(file)  # used now
        except FileNotFoundError:
            self._fetch(shard, file)
        return file

    def file(self, shard: Shard) -> Path:
        """The file of the shard, present or not; another address or other content has another name."""
        identity = hashlib.sha256(f"{shard.url} {shard.bytes} {shard.crc32}".encode()).hexdigest()[:16]
        return self.folder / f"{identity}-{re.sub(r'[^A-Za-z0-9._-]', '_', shard.name)[-80:]}"

    def _fetch(self, shard: Shard, file: Path) -> None:
        make_folder(self.folder)
        partial = self.folder / f"{PARTIAL}{os.getpid()}-{time.monotonic_ns()}"
        try:
            fetch(shard.url, partial, lambda path: verify(shard, path))
            publish(partial, file)  # what is here is taken for whole
        except FileNotFoundError as error:
            raise DataError(f"no file {shard.url}") from error
        finally:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
        self._drop_unused(file)

    def _drop_unused(self, newest: Path) -> None:
        kept, total = [], 0
        for file in self.folder.iterdir():
            with contextlib.suppress(FileNotFoundError):  # another process drops too
                status = file.stat()
                if file.name.startswith(PARTIAL):
                    _remove_leftover(file, status.st_mtime)
                elif OWN.match(file.name):  # the folder may hold other files, which are never removed
                    kept.append((status.st_mtime_ns, file, status.st_size))
                    total += status.st_size
        for _, file, size in sorted(kept):
            if total > self.limit and file != newest:
                file.unlink(missing_ok=True)
                total -= size


def verify(shard: Shard, path: Path) -> None:
    """Refuse a file that is not, byte for byte, the one that was indexed."""
    size = path.stat().st_size
    if size != shard.bytes:
        raise CutOffError(f"{size:,} bytes, {shard.expected}")
    checksum = file_crc32(path)
    if checksum != shard.crc32:
        raise CutOffError(f"checksum {checksum:08x}, {shard.expected}")


def file_crc32(path: Path) -> int:
    """The checksum of a whole file."""
    checksum = 0
    with open_plain(path) as file:
        while block := file.read(1 << 22):
            checksum = zlib.crc32(block, checksum)
    return checksum


def _remove_leftover(file: Path, modified: float) -> None:
    if LEFTOVER.fullmatch(file.name) and time.time() - modified > LEFTOVER_SECONDS:
        file.unlink(missing_ok=True)
