"""The SQLite database of a review, in the run's folder.

It uses a write-ahead log and syncs every commit (``synchronous = FULL``), so that confirmed decisions are on disk.
Writing transactions take the lock first, so that several servers can share the file. Only the owner may read it,
because it contains names of reviewers and row ids. Nothing is recorded once the folder holds another run or another
file, because nobody would find it.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pencil.durable import sync
from pencil.errors import RunError
from pencil.identity import run_id
from pencil.results.review_file import SCHEMA, check_run, check_schema, restrain, unreadable

OWNER_ONLY = 0o600
BUSY_SECONDS = 120.0  # another server may be filling the queue
STEPS = 100_000  # of SQLite between two looks at whether a query is to be interrupted


class Database:
    """The connection to a review's database, shared by the threads of a server."""

    def __init__(self, path: Path) -> None:
        self.path, self._run = path, run_id(path.parent)
        self._lock = threading.RLock()
        self._last: int | None = None  # the thread that alone may still ask
        make_private(path)
        self._file = _place(path)  # before it is opened, to notice a file that replaces it meanwhile
        with self._named_errors():
            self._db = sqlite3.connect(
                path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            self._db.set_progress_handler(lambda: self._last not in (None, threading.get_ident()), STEPS)
            self._begin()
            sync(path.parent)  # makes a new file durable

    def _begin(self) -> None:
        restrain(self._db)
        check_schema(self._db, self.path, begun=False)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.executescript(f"BEGIN IMMEDIATE;{SCHEMA}COMMIT")
        check_run(self._db, self.path, self._run)
        if self._run is not None:
            with self.writing():
                self.run("INSERT OR IGNORE INTO about VALUES ('run', ?)", (self._run,))

    def stop(self) -> None:
        """Interrupt the queries of all other threads, now and from now on: one of them may never end."""
        self._last = threading.get_ident()

    def close(self) -> None:
        """Interrupt the queries of other threads, and close the file."""
        self.stop()
        with self._lock:
            self._db.close()

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Run a block as a transaction: synced to disk on success, rolled back on an error."""
        with self._lock, self._named_errors():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._check_place()
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def _check_place(self) -> None:
        folder = self.path.parent
        if run_id(folder) != self._run or _place(self.path) != self._file:
            raise RunError(
                f"nothing was recorded: the run or its review was replaced or moved; stop the server, and start it "
                f"again with: pencil review {folder}"
            )

    def run(self, query: str, values: Any = ()) -> int:
        """Execute a statement; return the id of the last inserted row."""
        return self._db.execute(query, values).lastrowid or 0

    def run_many(self, query: str, values: Iterable[Any]) -> None:
        """Execute a statement once for each item of ``values``."""
        self._db.executemany(query, values)

    def find(self, query: str, values: Any = ()) -> tuple[Any, ...] | None:
        """The first row of a result; None if it is empty."""
        with self._lock, self._named_errors():
            found: tuple[Any, ...] | None = self._db.execute(query, values).fetchone()
            return found

    def find_all(self, query: str, values: Any = ()) -> list[tuple[Any, ...]]:
        """All rows of a result."""
        with self._lock, self._named_errors():
            return self._db.execute(query, values).fetchall()

    @contextlib.contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise unreadable(self.path, error) from error


def _place(path: Path) -> tuple[int, int] | None:
    """Which file a name stands for; None if there is none."""
    with contextlib.suppress(OSError):
        found = path.stat()
        return found.st_dev, found.st_ino
    return None


def make_private(path: Path) -> None:
    """Create the file if it does not exist, readable by its owner only; SQLite gives its other files the same mode.

    An existing file is never opened here: closing it would release the locks that SQLite holds on it in this process.
    """
    try:
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, OWNER_ONLY))
        for name in ("", "-wal", "-shm", "-journal"):
            with contextlib.suppress(FileNotFoundError):
                _tighten(path.with_name(path.name + name))
    except OSError as error:
        raise RunError(
            f"{path}: cannot be restricted to its owner ({error.strerror}); allow this user to write to its folder, "
            "or copy the run to another folder"
        ) from error


def _tighten(path: Path) -> None:
    mode = path.lstat().st_mode
    if not stat.S_ISREG(mode):
        raise RunError(
            f"{path}: is a link or not a regular file; replace it with the file itself, or move it away"
        )
    if stat.S_IMODE(mode) & 0o077:
        path.chmod(OWNER_ONLY)
