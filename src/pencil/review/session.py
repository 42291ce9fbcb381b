"""What the page asks a review, independent of HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pencil.review.history import Entry, Who
from pencil.review.items import Answer


class Session(Protocol):
    """The interface that the server and the page need. ``Review`` implements it; other ways to show rows may too.

    Answers are plain values for JSON. Those of ``take``, ``decide`` and ``undo`` have the keys ``items`` (up to
    ``count`` rows that are now reserved for the client, see ``Labels.item``), ``progress`` (``total`` and ``decided``),
    ``forecast`` (see ``items.forecast``; None hides it) and ``agreement`` (None hides it). A session that hides the
    suggestion leaves ``likely`` empty in its items.

    ``identity`` is another text for another run, another set of rows to show, or changed suggestions (see
    ``pencil.review.identity``), and the same one after a restart.
    """

    @property
    def identity(self) -> str:
        """What the session shows, as a short text."""

    def start(self) -> Answer:
        """What the page loads once: the run's name, its classes, and what the rows are shown as."""

    def take(self, client: str, count: int = 1) -> Answer:
        """Reserve the next rows for a client."""

    def decide(
        self,
        who: Who,
        ticket: str,
        seen: Sequence[tuple[int, int]],
        action: str,
        label: int | None = None,
        count: int = 1,
    ) -> Answer:
        """Carry out an action on rows, seen in a version; ``made`` lists the entries (see ``describe``)."""

    def undo(self, who: Who, ticket: str, entry: int | None = None, count: int = 1) -> Answer:
        """Undo an entry or the client's newest request; the answer's ``undone`` lists the entries."""

    def recent(self) -> list[Answer]:
        """The newest decisions in force."""

    def disagreements(self) -> list[Answer]:
        """Rows on which two opinions differ, as ``first`` and ``second`` entry."""

    def picture(self, row: int, longest: int | None = None) -> bytes | None:
        """The image of a row as PNG; None if it has no image."""

    def text(self, row: int) -> str | None:
        """The text of a row; None if it has no text."""

    def references(self, label: int) -> list[int]:
        """Rows that show what a class looks like; none if rows cannot be shown or labels are hidden."""

    def describe(self, made: Entry) -> Answer:
        """An entry as plain values."""
