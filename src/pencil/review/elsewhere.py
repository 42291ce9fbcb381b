"""Decisions that were made elsewhere, such as the answers of an audit, as entries of the review's history."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from pencil.identity import new_id
from pencil.results import DECISIONS, was_reviewed
from pencil.results.decisions import FIRST, reading
from pencil.results.judged import ACCEPTED, CHANGED, KEPT
from pencil.results.review_file import REVIEW_FILE
from pencil.review.database import Database
from pencil.review.history import Choice, History, Who
from pencil.review.queue import Queue
from pencil.run import RunDirectory

ELSEWHERE = "elsewhere "
"""How the client of such an entry begins."""


class MadeElsewhere(NamedTuple):
    """What somebody said a row is: class numbers of the label, None for none, and of the given and suggested one."""

    row: int
    id: str
    label: int | None
    given: int
    suggested: int
    reviewer: str

    @property
    def action(self) -> str:
        """One of ``DECISIONS``."""
        kept, accepted = self.label == self.given, self.label == self.suggested
        return DECISIONS[KEPT if kept else ACCEPTED if accepted else CHANGED]


def record(
    directory: RunDirectory, source: str, made: Iterable[MadeElsewhere], *, round_: str = FIRST
) -> None:
    """Record decisions of a source; a decision of another source about the same row stays, one of its own is replaced.

    Args:
        directory: The run.
        source: What made them, such as an audit by its id.
        made: The decisions, one for a row.
        round_: The round of the history.
    """
    new = list(made)
    if not new:
        return  # a run that nobody reviewed stays one
    with closing(Database(directory.path / REVIEW_FILE)) as database:
        history = History(database, Queue(database, round=round_))
        with database.writing():
            for each in new:
                _record(history, ELSEWHERE + source, each)


def _record(history: History, client: str, made: MadeElsewhere) -> None:
    who, standing = Who(made.reviewer, client), history.standing(made.row)
    if standing is not None and (standing.client != client or standing.label == made.label):
        return
    if standing is not None:
        history.undo(who, new_id(), standing.entry)
    if made.label is not None:
        id_ = made.id.encode("utf-8", "surrogateescape")
        choice = Choice(made.row, id_, history.version(made.row), made.action, made.label)
        history.decide(who, new_id(), [choice])


def newest_recorded(folder: Path) -> int:
    """The newest entry of any source in the review of a run; 0 if there is none."""
    if not was_reviewed(folder):
        return 0
    query = "SELECT COALESCE(MAX(entry), 0) FROM history WHERE substr(client, 1, ?) = ?"
    with reading(folder) as history:
        return int(history.execute(query, (len(ELSEWHERE), ELSEWHERE)).fetchone()[0])
