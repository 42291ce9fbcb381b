"""What people decided about a run's labels: an append-only history in the run's folder, and decisions read from it.

An entry is a decision, a skip, or an undo of an earlier entry. Nothing is ever changed or removed, so what was decided
by the time of any entry can be told again exactly.
"""

from __future__ import annotations

import contextlib
import sqlite3
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from pencil.algorithm import Rows, TopRows
from pencil.errors import RunError
from pencil.results.labels import LabelChunk

REVIEW = "review.sqlite"
ACCEPTED, KEPT, CHANGED, DROPPED = DECISIONS = ("accepted", "kept", "changed", "dropped")
SKIPPED, UNDONE = "skipped", "undone"
MOST_BYTES = 16 << 20  # of one value in the file

# version counts a row's decisions and undos: of two decisions on the same state one is refused. A skip has none.
# ticket is the client's own name for what it asks: a request sent twice is carried out once.
HISTORY = """
CREATE TABLE IF NOT EXISTS history (
  entry INTEGER PRIMARY KEY,
  place INTEGER NOT NULL,
  row INTEGER NOT NULL,
  id BLOB NOT NULL,
  version INTEGER,
  action TEXT NOT NULL,
  label INTEGER,
  undoes INTEGER UNIQUE REFERENCES history (entry),
  reviewer TEXT NOT NULL,
  client TEXT NOT NULL,
  at TEXT NOT NULL,
  ticket TEXT NOT NULL UNIQUE,
  UNIQUE (place, version)
);
CREATE INDEX IF NOT EXISTS history_by_client ON history (client, entry);
CREATE TRIGGER IF NOT EXISTS history_stays BEFORE UPDATE ON history
  BEGIN SELECT RAISE(ABORT, 'the history is append-only'); END;
CREATE TRIGGER IF NOT EXISTS history_remains BEFORE DELETE ON history
  BEGIN SELECT RAISE(ABORT, 'the history is append-only'); END;
"""
_STANDING = """
SELECT row, id, action, label FROM history AS made
WHERE entry <= ? AND action IN (?, ?, ?, ?)
  AND NOT EXISTS (SELECT 1 FROM history AS undo WHERE undo.undoes = made.entry AND undo.entry <= ?)
ORDER BY row
"""


@dataclass(frozen=True)
class Decision:
    """What somebody decided about one row.

    Attributes:
        row: Its number in the run.
        id: What identifies it to its owner.
        decision: One of ``DECISIONS``.
        label: The class; None for a row that was dropped.
    """

    row: int
    id: str
    decision: str
    label: int | None


def was_reviewed(folder: Path) -> bool:
    """Whether a review of the run in this folder was begun."""
    return (folder / REVIEW).is_file()


def last_entry(folder: Path) -> int:
    """The number of the newest entry; 0 where there is none yet."""
    with reading(folder) as history:
        return int(history.execute("SELECT COALESCE(MAX(entry), 0) FROM history").fetchone()[0])


def read_decisions(
    folder: Path, entry: int | None = None, *, num_classes: int | None = None
) -> Iterator[Decision]:
    """The decisions that stand, in the order of rows: now, or as they stood after an entry.

    Raises:
        RunError: A row stands twice or has a label beyond ``num_classes``; None admits any.
    """
    until, previous = last_entry(folder) if entry is None else entry, -1
    with reading(folder) as history:
        for row, name, action, label in history.execute(_STANDING, (until, *DECISIONS, until)):
            known = label is None if action == DROPPED else _is_class(label, num_classes)
            if type(row) is not int or row <= previous or not isinstance(name, bytes) or not known:
                raise RunError(
                    f"{folder / REVIEW}: row {row!r} is {action} as {label!r}, which no review of this run says; "
                    "restore it from a copy, or move it away"
                )
            yield Decision(row, name.decode("utf-8", "surrogateescape"), action, label)
            previous = row


def _is_class(label: object, num_classes: int | None) -> bool:
    return isinstance(label, int) and label >= 0 and (num_classes is None or label < num_classes)


def with_decisions(chunks: Iterable[LabelChunk], folder: Path) -> Iterator[LabelChunk]:
    """A run's labels from row 0 on, with what was decided in place of what was learned.

    A decided row is certain of the human's label; one that was dropped stays as it was learned. Both are told by the
    chunk's ``decisions``. A run without a review passes unchanged.
    """
    if not was_reviewed(folder):
        yield from chunks
        return
    first, decided, waiting = 0, None, None
    for chunk in chunks:
        if decided is None:
            decided = read_decisions(folder, num_classes=chunk.num_classes)
            waiting = next(decided, None)
        mine = []
        while waiting is not None and waiting.row < first + len(chunk.ids):
            mine.append(waiting)
            waiting = next(decided, None)
        yield _decided(chunk, mine, first)
        first += len(chunk.ids)
    if waiting is not None:
        raise RunError(
            f"{folder / REVIEW}: row {waiting.row} was decided, but the run has {first} rows; the review belongs to "
            "another run: move it away"
        )


def _decided(chunk: LabelChunk, decisions: list[Decision], first: int) -> LabelChunk:
    words = [""] * len(chunk.ids)
    for made in decisions:
        if chunk.ids[made.row - first] != made.id:
            raise RunError(
                f"{REVIEW}: row {made.row} was {made.id!r} when it was reviewed and is "
                f"{chunk.ids[made.row - first]!r} now; the review belongs to another run"
            )
        words[made.row - first] = made.decision
    labelled = [made for made in decisions if made.label is not None]
    places = torch.tensor([made.row - first for made in labelled], dtype=torch.int64)
    labels = torch.tensor([made.label for made in labelled], dtype=torch.int64)
    return replace(chunk, distribution=certain(chunk.distribution, places, labels), decisions=words)


def certain(distribution: Rows, places: Tensor, labels: Tensor) -> Rows:
    """The distribution (B, C) with certainty of the labels (M,) at some places (M,); the others stay."""
    if isinstance(distribution, TopRows):
        k = distribution.classes.shape[1]
        classes = (labels[:, None] + torch.arange(k)) % distribution.num_classes
        sure = torch.zeros(len(labels), k)
        sure[:, :1] = 1.0
        return TopRows(
            distribution.classes.index_copy(0, places, classes.to(distribution.classes.dtype)),
            distribution.values.index_copy(0, places, sure.to(distribution.values.dtype)),
            distribution.rest.index_fill(0, places, 0.0),
            distribution.num_classes,
        )
    sure = torch.nn.functional.one_hot(labels, distribution.shape[1]).to(distribution.dtype)
    return distribution.index_copy(0, places, sure)


@contextlib.contextmanager
def reading(folder: Path) -> Iterator[sqlite3.Connection]:
    """The review of a run, to read: a plain table, whoever made the file."""
    path = folder / REVIEW
    try:
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as history:
            restrain(history)
            check_history(history, path)
            yield history
    except (sqlite3.Error, UnicodeDecodeError) as error:  # text in the file may be no text
        raise unreadable(path, error) from error


def restrain(connection: sqlite3.Connection) -> None:
    """Keep a file of somebody else from calling functions by its schema, and from values without end."""
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_BYTES)
    if sys.version_info >= (3, 12):
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, True)


def check_history(history: sqlite3.Connection, path: Path) -> None:
    """Refuse a view, which may never end, a computed column, and a table in which undos take a search each."""
    (kind,) = history.execute("SELECT type FROM sqlite_schema WHERE name = 'history'").fetchone() or (None,)
    (plain,) = history.execute(
        "SELECT COUNT(*) FROM pragma_table_xinfo('history') WHERE hidden = 0 AND name IN (?, ?, ?, ?, ?, ?)",
        ("entry", "row", "id", "action", "label", "undoes"),
    ).fetchone()
    found = history.execute(
        "SELECT 1 FROM pragma_index_list('history') AS listed, pragma_index_info(listed.name) AS info "
        "WHERE listed.partial = 0 AND info.seqno = 0 AND info.name = 'undoes'"
    ).fetchone()
    virtual = history.execute(
        "SELECT 1 FROM sqlite_schema WHERE name = 'history' AND sql LIKE 'CREATE VIRTUAL%'"
    ).fetchone()
    if kind != "table" or plain != 6 or found is None or virtual is not None:
        raise RunError(
            f"{path}: is not a file that pencil review wrote; restore it from a copy, or move it away"
        )


def unreadable(path: Path, error: Exception) -> RunError:
    """What to do about a review that cannot be read or written."""
    return RunError(
        f"{path}: {error}; give this user the right to read and write it and its folder, or restore it from a copy"
    )
