"""The file of a review: one SQLite database in the run's folder.

Written ahead (WAL) and synced at every commit (``synchronous = FULL``): what was answered is on disk. A transaction
that writes begins by taking the lock, so that several servers may share the file. Only its owner may read it: it
holds names of people and of rows.
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
from pencil.results.decisions import HISTORY, check_history, restrain, unreadable

OWNER_ONLY = 0o600
BUSY_SECONDS = 120.0  # another server may be filling the queue

# A place is an item's rank by doubt, from 1; a part a stretch of places: doubtful rows, then perhaps sure ones.
QUEUE = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS parts (
  part TEXT PRIMARY KEY, first INTEGER NOT NULL, last INTEGER NOT NULL, decided INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS queue (
  place INTEGER PRIMARY KEY, row INTEGER NOT NULL, decided INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS queue_open ON queue (place) WHERE decided = 0;
CREATE TABLE IF NOT EXISTS leases (place INTEGER PRIMARY KEY, client TEXT NOT NULL, until REAL NOT NULL);
CREATE INDEX IF NOT EXISTS leases_by_client ON leases (client);
CREATE TABLE IF NOT EXISTS skips (
  client TEXT NOT NULL, place INTEGER NOT NULL, entry INTEGER NOT NULL, PRIMARY KEY (client, place)
) WITHOUT ROWID;
"""


class Database:
    """The connection to a review's file, shared by the threads of a server."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        make_private(path)
        with self._named_errors():
            self._db = sqlite3.connect(
                path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            restrain(self._db)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.executescript(QUEUE + HISTORY)
            check_history(self._db, path)
            sync(path.parent)  # the file itself, where it is new

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._db.close()

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """A transaction: on disk when it ends, or as if it had not begun."""
        with self._lock, self._named_errors():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def run(self, query: str, values: Any = ()) -> int:
        """Carry out a change; returns the number of the row that was inserted last."""
        return self._db.execute(query, values).lastrowid or 0

    def run_many(self, query: str, values: Iterable[Any]) -> None:
        """Carry out a change for each of many values."""
        self._db.executemany(query, values)

    def find(self, query: str, values: Any = ()) -> tuple[Any, ...] | None:
        """The first row of an answer; None where it is empty."""
        with self._lock, self._named_errors():
            found: tuple[Any, ...] | None = self._db.execute(query, values).fetchone()
            return found

    def find_all(self, query: str, values: Any = ()) -> list[tuple[Any, ...]]:
        """All rows of an answer."""
        with self._lock, self._named_errors():
            return self._db.execute(query, values).fetchall()

    @contextlib.contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise unreadable(self.path, error) from error


def make_private(path: Path) -> None:
    """Make the file where it is not there yet, for its owner alone; SQLite gives its companions the same rights.

    What is there is never opened here: to close a file takes away the locks that SQLite has on it in this process.
    """
    try:
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, OWNER_ONLY))
        for name in ("", "-wal", "-shm", "-journal"):
            with contextlib.suppress(FileNotFoundError):
                _tighten(path.with_name(path.name + name))
    except OSError as error:
        raise RunError(
            f"{path}: cannot be made readable for its owner alone ({error.strerror}); give this user the right to "
            "write its folder, or copy the run to a folder of yours"
        ) from error


def _tighten(path: Path) -> None:
    mode = path.lstat().st_mode
    if not stat.S_ISREG(mode):
        raise RunError(
            f"{path}: is a link or no file at all; put the file itself in its place, or move it away"
        )
    if stat.S_IMODE(mode) & 0o077:
        path.chmod(OWNER_ONLY)
