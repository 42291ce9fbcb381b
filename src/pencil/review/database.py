"""The file of a review: one SQLite database in the run's folder.

Written ahead (WAL) and synced at every commit (``synchronous = FULL``): what was answered is on disk. A transaction
that writes begins by taking the lock, so that several servers may share the file.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pencil.results.decisions import HISTORY, unreadable

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
        with self._named_errors():
            self._db = sqlite3.connect(
                path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.executescript(QUEUE + HISTORY)

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
        """Carry out a change; answers with the number of the row that was inserted last."""
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
