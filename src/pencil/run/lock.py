"""A lock that lets one process at a time write to a run's folder.

It is a POSIX record lock on a file that is never removed. The kernel releases it when its process ends for any reason,
and NFS passes it on to the server. Unlike flock it is not shared with worker processes, which may outlive a killed
parent. It does not exclude threads of one process, so this module also records the folders that the process holds.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import socket
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from pencil.durable import make_folder
from pencil.errors import DataError, RunError
from pencil.reading import parse_json

LOCK = ".lock"
NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
LOOK_SECONDS = 0.2
_held: set[Path] = set()
_guard = threading.Lock()


@contextlib.contextmanager
def locked(folder: Path, *, wait_seconds: float = 0.0) -> Iterator[None]:
    """Hold the lock of a run's folder, which is created if it does not exist.

    Args:
        folder: The run's folder.
        wait_seconds: How long to wait for another process to release the lock.

    Raises:
        RunError: Another process holds the lock.
    """
    place = _noted(folder)
    try:
        with _opened(folder) as file:
            _acquire(file, folder, time.monotonic() + wait_seconds)
            _sign(file)
            yield
    finally:
        with _guard:
            _held.discard(place)


def _noted(folder: Path) -> Path:
    place = folder.resolve()
    with _guard:
        if place in _held:
            raise RunError(f"{folder}: this process is already using it; wait until that is done")
        _held.add(place)
    return place


def _opened(folder: Path) -> IO[str]:
    try:
        make_folder(folder)
        # O_NOFOLLOW: the folder may belong to another user, who could redirect the write with a link.
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise RunError(
            f"{folder}: cannot be written ({error.strerror or error}); choose another place"
        ) from error
    return os.fdopen(handle, "r+", encoding="utf-8", errors="replace")


def _acquire(file: IO[str], folder: Path, deadline: float) -> None:
    while True:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError as error:
            if error.errno in NO_LOCKS:
                warnings.warn(
                    f"{folder}: this file system has no locks ({error.strerror}); train there from one process only",
                    stacklevel=3,
                )
                return
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                raise RunError(
                    f"{folder / LOCK}: cannot be locked ({error.strerror}); choose another folder"
                ) from error
        if time.monotonic() >= deadline:
            raise RunError(
                f"{folder}: another process{_holder(file)} is using it; wait until it is done, or stop it"
            )
        time.sleep(LOOK_SECONDS)


def _sign(file: IO[str]) -> None:
    """Write the holder into the file, for error messages of other processes. Not synced, as it need not survive."""
    with contextlib.suppress(OSError):  # a full disk must not stop the run
        file.truncate(0)
        file.seek(0)
        file.write(json.dumps({"host": socket.gethostname(), "process": os.getpid()}))
        file.flush()


def _holder(file: IO[str]) -> str:
    try:
        who = parse_json(file.read(1000), source=LOCK)
        return f" ({int(who['process'])} on {str(who['host'])[:100]})"
    except (DataError, ValueError, KeyError, TypeError):
        return ""
