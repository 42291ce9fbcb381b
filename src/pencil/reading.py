"""Files from anybody, read within bounds: plain files only, of bounded size, and JSON whose every fault is one error.

A name in a data set or a run folder may belong to a pipe that never ends, a device, or a file far larger than what it
should hold. Readers therefore open what they are given through ``open_plain`` or ``read_bytes``.
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
    """A file opened for reading; refuses pipes, devices, sockets and folders without waiting for them."""
    try:
        # O_NONBLOCK: opening a pipe that nobody writes to would wait for ever. It means nothing to plain files.
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    except (OSError, ValueError) as problem:  # ValueError: a name with a null byte in it
        raise error(
            f"{path}: cannot be read ({getattr(problem, 'strerror', None) or problem}); check its name"
        ) from problem
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise error(f"{path}: is not a plain file; remove it, or put a file in its place")
    return os.fdopen(handle, "rb")


def is_file(path: Path) -> bool:
    """Whether a plain file is there; a name that no file could have is none."""
    try:
        return path.is_file()
    except OSError:  # longer than any file's
        return False


def read_bytes(path: Path, *, limit: int, error: type[PencilError] = DataError) -> bytes:
    """The content of a plain file of at most ``limit`` bytes."""
    with open_plain(path, error=error) as file:
        size = os.fstat(file.fileno()).st_size
        content = file.read(min(limit, size) + 1)  # which takes room for as much as is asked for
    if len(content) > limit:
        raise error(
            f"{path}: is larger than {limit:,} bytes, which no such file needs; check where it came from"
        )
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
    """The value of a JSON text; whatever is wrong with it, one error names its source."""
    try:
        return json.loads(text)
    except (
        ValueError,
        RecursionError,
    ) as problem:  # also bytes that are no text, and integers of 4,300 digits
        raise error(f"{source}: is not valid JSON ({problem})") from problem


def read_json(path: Path, *, limit: int = JSON_BYTES, error: type[PencilError] = DataError) -> Any:
    """The value of a JSON file of at most ``limit`` bytes."""
    return parse_json(read_bytes(path, limit=limit, error=error), source=path, error=error)
