"""Records decisions, skips and undos; rejects the second of two decisions on the same version of an item."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from pencil.errors import PencilError, RunError
from pencil.results import DECISIONS
from pencil.results.decisions import SKIPPED, UNDONE
from pencil.review.database import Database
from pencil.review.queue import Queue

_ENTRY = "SELECT entry, place, row, id, version, action, label, undoes, reviewer, client, at FROM history"
_STANDS = "NOT EXISTS (SELECT 1 FROM history AS undo WHERE undo.undoes = made.entry)"


@dataclass(frozen=True)
class Who:
    """The sender of a request: the reviewer's name, and the browser tab that reserves items."""

    reviewer: str
    client: str


@dataclass(frozen=True)
class Entry:
    """One entry of the history; see ``pencil.results.decisions``."""

    entry: int
    place: int
    row: int
    id: bytes
    version: int | None
    action: str
    label: int | None
    undoes: int | None
    reviewer: str
    client: str
    at: str

    @property
    def decides(self) -> bool:
        """Whether the entry is a decision, not a skip or an undo."""
        return self.action in DECISIONS[1:]


@dataclass(frozen=True)
class Seen:
    """An item as a reviewer saw it: its place, row and id, and its version (number of decisions and undos)."""

    place: int
    row: int
    id: bytes
    version: int


class OvertakenError(Exception):
    """The item changed after the reviewer saw it; ``entry`` is the latest change."""

    def __init__(self, entry: Entry) -> None:
        super().__init__(f"item {entry.place} was {entry.action} by {entry.reviewer}")
        self.entry = entry


class TicketError(PencilError):
    """The ticket was already used for another request or by another client."""

    def __init__(self) -> None:
        super().__init__("ticket: already used for another request; send a new one")


@dataclass(frozen=True)
class History:
    """Adds entries and updates the queue; must be called within ``Database.writing``."""

    database: Database
    queue: Queue

    def decide(self, who: Who, ticket: str, seen: Seen, action: str, label: int | None = None) -> Entry:
        """Record a decision or a skip; if the ticket was already recorded, return its entry.

        Raises:
            OvertakenError: The item was decided or undone in the meantime.
            TicketError: The ticket was used for another request.
        """
        known = self._find("ticket = ?", ticket)
        if known is not None:
            same = (who.client, seen.place, action, label) == (
                known.client,
                known.place,
                known.action,
                known.label,
            )
            return _repeated(known, same)
        last = self._find("place = ? AND version IS NOT NULL ORDER BY version DESC LIMIT 1", seen.place)
        if last is not None and (last.version != seen.version or last.decides):
            raise OvertakenError(last)
        if last is None and seen.version:
            raise RunError(f"item {seen.place}: version {seen.version} does not exist; reload the page")
        return self._enter(who, ticket, seen, action, label=label)

    def undo(self, who: Who, ticket: str, entry: int | None = None) -> Entry | None:
        """Undo an entry, by default the client's newest; return None if there is none to undo.

        The item becomes open again and is reserved for this client. The undo is recorded as an entry.

        Raises:
            OvertakenError: The entry was already undone.
            TicketError: The ticket was used for another request.
        """
        known = self._find("ticket = ?", ticket)
        if known is not None:
            asked = known.undoes if entry is None else entry
            return _repeated(known, (who.client, asked, UNDONE) == (known.client, known.undoes, known.action))
        made = self._newest_of(who.client) if entry is None else self._find("entry = ?", entry)
        if made is None:
            return None
        again = made if made.action == UNDONE else self._find("undoes = ?", made.entry)
        if again is not None:
            raise OvertakenError(again)
        seen = Seen(made.place, made.row, made.id, self.version(made.place))
        return self._enter(who, ticket, seen, UNDONE, undone=made)

    def version(self, place: int) -> int:
        """The number of decisions and undos of an item."""
        found = self.database.find("SELECT MAX(version) FROM history WHERE place = ?", (place,))
        return 0 if found is None or found[0] is None else int(found[0])

    def newest(self, count: int) -> list[Entry]:
        """The newest decisions in force, newest first."""
        query = f"{_ENTRY} AS made WHERE action NOT IN (?, ?) AND {_STANDS} ORDER BY entry DESC LIMIT ?"
        return [Entry(*found) for found in self.database.find_all(query, (SKIPPED, UNDONE, count))]

    def _newest_of(self, client: str) -> Entry | None:
        query = f"{_ENTRY} AS made WHERE client = ? AND action <> ? AND {_STANDS} ORDER BY entry DESC LIMIT 1"
        found = self.database.find(query, (client, UNDONE))
        return None if found is None else Entry(*found)

    def _enter(
        self,
        who: Who,
        ticket: str,
        seen: Seen,
        action: str,
        *,
        label: int | None = None,
        undone: Entry | None = None,
    ) -> Entry:
        counts = action in DECISIONS[1:] or (undone is not None and undone.decides)
        number = self.database.run(
            "INSERT INTO history (place, row, id, version, action, label, undoes, reviewer, client, at, ticket) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(seen.place, seen.row, seen.id, seen.version + 1 if counts else None, action, label),
                *(None if undone is None else undone.entry, who.reviewer, who.client, _now(), ticket),
            ),
        )
        made = self._find("entry = ?", number)
        assert made is not None
        self._move(made, undone)
        return made

    def _move(self, made: Entry, undone: Entry | None) -> None:
        """Update the queue for a new entry."""
        if made.decides:
            self.queue.close(made.place)
        elif made.action == SKIPPED:
            self.queue.set_aside(made.place, made.client, made.entry)
        elif undone is not None:
            if undone.decides:
                self.queue.open_again(made.place)
            self.queue.take_back(made.place, made.client)

    def _find(self, condition: str, value: int | str) -> Entry | None:
        found = self.database.find(f"{_ENTRY} WHERE {condition}", (value,))
        return None if found is None else Entry(*found)


def _repeated(known: Entry, same: bool) -> Entry:
    """Return the entry of a repeated request; reveal nothing about tickets of other clients."""
    if not same:
        raise TicketError
    return known


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
