"""Review decisions of a run: an append-only history in the run's folder, and functions that read it.

An entry is a decision, a skip, or an undo of an earlier entry. Entries are never changed or removed, so the decisions
at the time of any entry can be reconstructed exactly.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from pencil.belief import NO_CLASS
from pencil.errors import RunError
from pencil.identity import run_id
from pencil.results.judged import DECISIONS, DROPPED, UNDECIDED, Decided
from pencil.results.review_file import REVIEW_FILE, check_run, check_schema, restrain, unreadable

SKIPPED, UNDONE = "skipped", "undone"  # entries other than decisions

FIRST = "first"
"""The round of the decisions that count; other rounds, such as second opinions, are kept beside them."""

NOT_UNDONE = "NOT EXISTS (SELECT 1 FROM history AS undo WHERE undo.undoes = made.entry)"
IN_FORCE = f"made.action IN {DECISIONS[1:]} AND {NOT_UNDONE}"
"""A condition on ``history AS made``: the entry is a decision, and nobody has undone it."""
_STANDING = """
SELECT row, id, action, label FROM history AS made
WHERE round = ? AND entry <= ? AND action IN (?, ?, ?, ?)
  AND NOT EXISTS (SELECT 1 FROM history AS undo WHERE undo.undoes = made.entry AND undo.entry <= ?)
ORDER BY row
"""


@dataclass(frozen=True)
class Decision:
    """A reviewer's decision about one row.

    Attributes:
        row: The row number in the run.
        id: The row's id in the data set.
        decision: One of ``DECISIONS``, except the first.
        label: The chosen class; None for a dropped row.
    """

    row: int
    id: str
    decision: str
    label: int | None


def was_reviewed(folder: Path) -> bool:
    """Whether the run in this folder has a review."""
    return (folder / REVIEW_FILE).is_file()


def last_entry(folder: Path) -> int:
    """The number of the newest entry; 0 if the history is empty."""
    with reading(folder) as history:
        return int(history.execute("SELECT COALESCE(MAX(entry), 0) FROM history").fetchone()[0])


def read_decisions(
    folder: Path, entry: int | None = None, *, num_classes: int | None = None
) -> Iterator[Decision]:
    """Yield the decisions in force, sorted by row.

    Args:
        folder: The run's folder.
        entry: Ignore later entries than this one; None uses the whole history.
        num_classes: Reject labels outside this range; None accepts any label.

    Raises:
        RunError: A row has two decisions, or a label out of range.
    """
    until, previous = last_entry(folder) if entry is None else entry, -1
    with reading(folder) as history:
        for row, name, action, label in history.execute(_STANDING, (FIRST, until, *DECISIONS[1:], until)):
            known = label is None if action == DECISIONS[DROPPED] else _is_class(label, num_classes)
            if type(row) is not int or row <= previous or not isinstance(name, bytes) or not known:
                raise RunError(
                    f"{folder / REVIEW_FILE}: row {row!r}, {action} as {label!r}, is not a valid decision for this "
                    "run; restore the file from a backup, or move it away"
                )
            yield Decision(row, name.decode("utf-8", "surrogateescape"), action, label)
            previous = row


def _is_class(label: object, num_classes: int | None) -> bool:
    return isinstance(label, int) and label >= 0 and (num_classes is None or label < num_classes)


class DecisionReader:
    """Read a run's decisions in row order, for consecutive ranges of rows.

    Args:
        folder: The folder of a reviewed run.
        num_classes: The number of classes of the run.
        entry: Ignore later entries than this one; None uses the whole history.
    """

    def __init__(self, folder: Path, num_classes: int, entry: int | None = None) -> None:
        self._path = folder / REVIEW_FILE
        self._decisions = read_decisions(folder, entry, num_classes=num_classes)
        self._next = next(self._decisions, None)
        self._rows = 0

    def take(self, ids: Sequence[str]) -> Decided:
        """Return the decisions for the next ``len(ids)`` rows, which must have these ids."""
        first, self._rows = self._rows, self._rows + len(ids)
        decided = Decided(torch.full((len(ids),), UNDECIDED), torch.full((len(ids),), NO_CLASS))
        while self._next is not None and self._next.row < self._rows:
            made, place = self._next, self._next.row - first
            if ids[place] != made.id:
                raise RunError(
                    f"{REVIEW_FILE}: row {made.row} was {made.id!r} during the review and is {ids[place]!r} now; "
                    "the review belongs to another run, move it away"
                )
            decided.decision[place] = DECISIONS.index(made.decision)
            decided.label[place] = NO_CLASS if made.label is None else made.label
            self._next = next(self._decisions, None)
        return decided

    def finish(self) -> None:
        """Check that no decisions are left for rows beyond the last.

        Raises:
            RunError: The review covers more rows than the run has.
        """
        if self._next is not None:
            raise RunError(
                f"{self._path}: it has a decision for row {self._next.row}, but the run has {self._rows} rows; the "
                "review belongs to another run, move it away"
            )


@contextlib.contextmanager
def reading(folder: Path) -> Iterator[sqlite3.Connection]:
    """Open a run's review read-only, after checking that it is a review and that of this run."""
    path = folder / REVIEW_FILE
    try:
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as history:
            restrain(history)
            check_schema(history, path)
            check_run(history, path, run_id(folder))
            yield history
    except (sqlite3.Error, UnicodeDecodeError) as error:  # text columns may hold invalid UTF-8
        raise unreadable(path, error) from error
