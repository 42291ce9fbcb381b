"""Read untrusted files safely: plain files only, with a size limit, and with one error type for invalid JSON.

A name in a data set or a run folder may refer to an endless pipe, a device, or a huge file. Readers therefore open
files with ``open_plain`` or ``read_bytes``.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

from pencil.errors import DataError, PencilError

MB = 1 << 20
JSON_BYTES = 64 * MB  # far more than any JSON file this package writes or reads


def open_plain(path: Path, *, error: type[PencilError] = DataError) -> BinaryIO:
    """Open a file for reading; rejects pipes, devices, sockets and folders without blocking."""
    try:
        # O_NONBLOCK: opening a pipe without a writer would block forever. It has no effect on plain files.
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    except (OSError, ValueError) as problem:  # ValueError: a name with a null byte in it
        raise error(
            f"{path}: cannot be read ({getattr(problem, 'strerror', None) or problem}); check its name"
        ) from problem
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise error(f"{path}: is not a plain file; remove it, or replace it with a file")
    return os.fdopen(handle, "rb")


def is_file(path: Path) -> bool:
    """Whether a plain file exists; False for invalid names."""
    try:
        return path.is_file()
    except OSError:  # the name is too long
        return False


def read_bytes(path: Path, *, limit: int, error: type[PencilError] = DataError) -> bytes:
    """The content of a plain file of at most ``limit`` bytes."""
    with open_plain(path, error=error) as file:
        size = os.fstat(file.fileno()).st_size
        content = file.read(min(limit, size) + 1)  # read() allocates the requested size
    if len(content) > limit:
        raise error(f"{path}: is larger than the limit of {limit:,} bytes; check where it came from")
    return content


def read_text(path: Path, *, limit: int, error: type[PencilError] = DataError) -> str:
    """The content of a plain UTF-8 file of at most ``limit`` bytes; a byte-order mark is dropped."""
    try:
        return read_bytes(path, limit=limit, error=error).decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise error(
            f"{path}: is not UTF-8 ({problem.reason} at byte {problem.start}); save it as UTF-8"
        ) from problem


def parse_json(text: str | bytes, *, source: object, error: type[PencilError] = DataError) -> Any:
    """Parse JSON; raise ``error`` with the name of the source if it is invalid."""
    try:
        return json.loads(text)
    except (
        ValueError,
        RecursionError,
    ) as problem:  # also bytes that are no text, and integers of 4,300 digits
        raise error(f"{source}: is not valid JSON ({problem}); fix it, or write it again") from problem


def read_json(path: Path, *, limit: int = JSON_BYTES, error: type[PencilError] = DataError) -> Any:
    """The value of a JSON file of at most ``limit`` bytes."""
    return parse_json(read_bytes(path, limit=limit, error=error), source=path, error=error)
