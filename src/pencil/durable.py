"""Files that survive power loss: contents are synced to disk before they are published under their name.

A rename is stored in the folder, so the folder is synced too: before the rename for the temporary name, and after it
for the final name.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


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
def replacing(path: Path, *, owner: str = "") -> Iterator[Path]:
    """Yield a temporary path that replaces ``path`` when the block ends without an error.

    Processes that may write the same file at the same time need an ``owner`` each.
    """
    partial = path.with_name(f".partial-{owner}{path.name}")
    try:
        yield partial
        publish(partial, path)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 file atomically."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")
