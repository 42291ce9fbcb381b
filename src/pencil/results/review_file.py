"""The file of a review: its tables, and how it is opened although a stranger may have written it.

A trigger or a view can change what is recorded, or never end. So the file must hold exactly what ``SCHEMA`` creates,
whoever opens it. It also names its run, because decisions are about the rows of that run.
"""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

from pencil.errors import RunError
from pencil.escape import shown

REVIEW_FILE = "review.sqlite"
MOST_BYTES = 16 << 20  # of one value in the file

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

# version counts a row's decisions and undos in a round, so that the second of two concurrent decisions is rejected. A
# skip has no version. A request may have several entries; request is the number of its first one, which alone has the
# ticket. The ticket is chosen by the client per request: a request that is sent twice is carried out once.
HISTORY = """
CREATE TABLE IF NOT EXISTS history (
  entry INTEGER PRIMARY KEY,
  request INTEGER NOT NULL,
  round TEXT NOT NULL,
  row INTEGER NOT NULL,
  id BLOB NOT NULL,
  version INTEGER,
  action TEXT NOT NULL,
  label INTEGER,
  undoes INTEGER UNIQUE REFERENCES history (entry),
  reviewer TEXT NOT NULL,
  client TEXT NOT NULL,
  at TEXT NOT NULL,
  ticket TEXT UNIQUE,
  UNIQUE (round, row, version)
);
CREATE INDEX IF NOT EXISTS history_by_client ON history (client, entry);
CREATE INDEX IF NOT EXISTS history_by_request ON history (request);
CREATE TRIGGER IF NOT EXISTS history_stays BEFORE UPDATE ON history
  BEGIN SELECT RAISE(ABORT, 'the history is append-only'); END;
CREATE TRIGGER IF NOT EXISTS history_remains BEFORE DELETE ON history
  BEGIN SELECT RAISE(ABORT, 'the history is append-only'); END;
"""
SCHEMA = QUEUE + HISTORY
_OBJECTS = "SELECT type, name, tbl_name, sql FROM sqlite_schema"


def restrain(connection: sqlite3.Connection) -> None:
    """Harden a connection against untrusted files: no functions called by the schema, and a size limit for values."""
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_BYTES)
    if sys.version_info >= (3, 12):
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, True)


def check_schema(connection: sqlite3.Connection, path: Path, *, begun: bool = True) -> None:
    """Check that a file holds what ``SCHEMA`` creates, to the letter; one that was not ``begun`` may hold less.

    Raises:
        RunError: It holds something else, or lacks something.
    """
    found, expected = set(connection.execute(_OBJECTS)), _expected()
    wrong = found - expected or (expected - found if begun else set())
    if wrong:
        kind, name = (shown(str(word)) for word in min(wrong, key=repr)[:2])
        raise RunError(
            f"{path}: {kind} {name} is not what pencil review creates; restore the file from a backup, or move it away"
        )


@cache
def _expected() -> set[Any]:
    with closing(sqlite3.connect(":memory:")) as made:
        made.executescript(SCHEMA)
        return set(made.execute(_OBJECTS))


def check_run(connection: sqlite3.Connection, path: Path, run: str | None) -> None:
    """Check that a review is that of a run; a review from before there were ids names none, and passes.

    Raises:
        RunError: It belongs to another run.
    """
    found = connection.execute("SELECT value FROM about WHERE name = 'run'").fetchone()
    if found is not None and found != (run,):
        raise RunError(
            f"{path}: belongs to another run than the one in its folder; move it away, or bring its run back"
        )


def unreadable(path: Path, error: Exception) -> RunError:
    """The error for a review that cannot be read or written."""
    return RunError(
        f"{path}: {error}; allow this user to read and write the file and its folder, or restore it from a backup"
    )
