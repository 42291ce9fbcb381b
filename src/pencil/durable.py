"""Files that survive power loss: contents are synced to disk before they are published under their name.

A rename is stored in the folder, so the folder is synced too: before the rename for the temporary name, and after it
for the final name. A temporary name is random, and its file is created exclusively: nobody can have put a link there,
and of two processes that write one file each writes its own, of which the last one stays, whole.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path

PARTIAL = ".partial-"
_KEPT = 64  # characters of a name that its temporary name ends with, which must not be too long for the file system
ABANDONED_SECONDS = 24 * 3600.0  # nobody writes a file for so long without a pause


def sync(path: Path) -> None:
    """Sync a file or a folder to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(path: Path) -> None:
    """Create a folder and its missing parents so that they survive power loss."""
    made, existed = [place for place in path.parents if not place.exists()], path.exists()
    path.mkdir(parents=True, exist_ok=True)
    for place in reversed(made):
        sync(place.parent)
    # Another process may have created the folder a moment ago. One that was there may be in a place we cannot read.
    with contextlib.suppress(PermissionError) if existed else contextlib.nullcontext():
        sync(path.parent)


def publish(partial: Path, path: Path) -> None:
    """Rename a finished file or folder; after power loss ``path`` is unchanged or complete."""
    sync(partial)
    sync(partial.parent)
    partial.replace(path)
    sync(path.parent)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary file that replaces ``path`` when the block ends without an error.

    It has the rights of other new files of the user, whatever the writer of the block sets.
    """
    _remove_abandoned(path)
    partial = path.with_name(f"{PARTIAL}{secrets.token_hex(8)}-{path.name[-_KEPT:]}")
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        mode = stat.S_IMODE(os.fstat(handle).st_mode)
        os.close(handle)
        yield partial
        partial.chmod(mode)
        publish(partial, path)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def is_partial(name: str, of: str) -> bool:
    """Whether a name is that of a temporary file for the file ``of``."""
    return re.fullmatch(f"{re.escape(PARTIAL)}[0-9a-f]{{16}}-{re.escape(of[-_KEPT:])}", name) is not None


def _remove_abandoned(path: Path) -> None:
    """Remove temporary files that killed processes left long ago."""
    with contextlib.suppress(OSError):
        for other in path.parent.glob(f"{PARTIAL}*"):
            old = time.time() - other.lstat().st_mtime > ABANDONED_SECONDS
            if old and is_partial(other.name, path.name):
                other.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 file atomically."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")
