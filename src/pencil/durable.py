"""Files that survive power loss: what was written is on disk before the name that publishes it.

A rename is remembered by its folder, so the folder is synced too: before the rename for the file's new name under its
temporary one, after it for the published name.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


def sync(path: Path) -> None:
    """Wait until a file or a folder is on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(path: Path) -> None:
    """Make a folder and its parents where they are missing; after power loss they are still there."""
    made = [place for place in path.parents if not place.exists()]
    path.mkdir(parents=True, exist_ok=True)
    # The folder itself is synced in any case: somebody else may have made it a moment ago.
    for place in (*reversed(made), path):
        sync(place.parent)


def publish(partial: Path, path: Path) -> None:
    """Rename a finished file or folder: after power loss ``path`` is what it was before, or whole."""
    sync(partial)
    sync(partial.parent)
    partial.replace(path)
    sync(path.parent)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Where to write a file that takes the place of ``path`` when the block ends without an error."""
    partial = path.with_name(f".partial-{path.name}")
    try:
        yield partial
        publish(partial, path)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a whole UTF-8 file."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")
