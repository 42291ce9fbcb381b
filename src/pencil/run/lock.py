"""One process at a time writes into a run's folder.

The lock is the kernel's, on a file that stays: it ends with the process that holds it, however that ends, so nothing is
left behind to clean up. It is a POSIX record lock, which NFS passes on to the server; unlike flock it is not shared
with worker processes, which may live a little longer than a parent that was killed. It does not keep two threads of
one process apart, so the folders that this process holds are noted too.
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
from pencil.errors import RunError

LOCK = ".lock"
NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
LOOK_SECONDS = 0.2
_held: set[Path] = set()
_guard = threading.Lock()


@contextlib.contextmanager
def locked(folder: Path, *, wait_seconds: float = 0.0) -> Iterator[None]:
    """Hold the lock of a run's folder, which is made if it is not there.

    Args:
        folder: The run's folder.
        wait_seconds: How long to wait for somebody else to end.

    Raises:
        RunError: Another process is at work there.
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
            raise RunError(f"{folder}: this process is at work there already; wait until it is done")
        _held.add(place)
    return place


def _opened(folder: Path) -> IO[str]:
    try:
        make_folder(folder)
        # O_NOFOLLOW: the folder may be somebody else's, and a link there would have us write elsewhere.
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise RunError(
            f"{folder}: no run can be kept there ({error.strerror or error}); choose another place"
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
                    f"{folder}: this file system has no locks ({error.strerror}); let no other process train there",
                    stacklevel=3,
                )
                return
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                raise RunError(f"{folder / LOCK}: cannot be locked ({error.strerror})") from error
        if time.monotonic() >= deadline:
            raise RunError(
                f"{folder}: another process{_holder(file)} is at work there; wait until it is done, or stop it"
            )
        time.sleep(LOOK_SECONDS)


def _sign(file: IO[str]) -> None:
    """Say who holds it, for the message that others get. Not synced: it means nothing once the process is gone."""
    with contextlib.suppress(OSError):  # a full disk must not keep a run from going on
        file.truncate(0)
        file.seek(0)
        file.write(json.dumps({"host": socket.gethostname(), "process": os.getpid()}))
        file.flush()


def _holder(file: IO[str]) -> str:
    try:
        who = json.loads(file.read(1000))
        return f" ({int(who['process'])} on {str(who['host'])[:100]})"
    except (ValueError, KeyError, TypeError):
        return ""
