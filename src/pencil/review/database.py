"""The SQLite database of a review, in the run's folder.

It uses a write-ahead log and syncs every commit (``synchronous = FULL``), so that confirmed decisions are on disk.
Writing transactions take the lock first, so that several servers can share the file. Only the owner may read it,
because it contains names of reviewers and row ids.
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

# A part is a list of rows in an order; place is a row's rank in it. Leases and skips are a round's, as decisions are.
QUEUE = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS parts (
  part INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, round TEXT NOT NULL, source TEXT NOT NULL,
  rows INTEGER NOT NULL, decided INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS queue (
  part INTEGER NOT NULL, place INTEGER NOT NULL, row INTEGER NOT NULL, chance REAL NOT NULL,
  decided INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (part, place)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS queue_open ON queue (part, place) WHERE decided = 0;
CREATE INDEX IF NOT EXISTS queue_by_row ON queue (row);
CREATE TABLE IF NOT EXISTS leases (
  round TEXT NOT NULL, row INTEGER NOT NULL, client TEXT NOT NULL, until REAL NOT NULL, PRIMARY KEY (round, row)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS leases_by_client ON leases (client);
CREATE TABLE IF NOT EXISTS skips (
  round TEXT NOT NULL, client TEXT NOT NULL, row INTEGER NOT NULL, entry INTEGER NOT NULL,
  PRIMARY KEY (round, client, row)
) WITHOUT ROWID;
"""


class Database:
    """The connection to a review's database, shared by the threads of a server."""

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
            sync(path.parent)  # makes a new file durable

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Run a block as a transaction: synced to disk on success, rolled back on an error."""
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
