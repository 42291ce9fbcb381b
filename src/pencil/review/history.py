"""Records decisions, skips and undos; rejects the second of two decisions on the same version of a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pencil.errors import PencilError, RunError
from pencil.results import DECISIONS
from pencil.results.decisions import IN_FORCE, NOT_UNDONE, SKIPPED, UNDONE
from pencil.review.database import Database
from pencil.review.queue import Queue

_COLUMNS = "request, round, row, id, version, action, label, undoes, reviewer, client, at"
_ENTRY = f"SELECT entry, {_COLUMNS} FROM history AS made"  # noqa: S608 - built from constants only
_INSERT = f"INSERT INTO history ({_COLUMNS}, ticket) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - as above


@dataclass(frozen=True)
class Who:
    """The sender of a request: the reviewer's name, and the browser tab that reserves rows."""

    reviewer: str
    client: str


@dataclass(frozen=True)
class Entry:
    """One entry of the history; see ``pencil.results.decisions``."""

    entry: int
    request: int
    round: str
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
class Choice:
    """A decision or skip that a reviewer asks for.

    Attributes:
        row: The row number.
        id: The row's id, as bytes.
        version: The number of decisions and undos of the row when the reviewer saw it.
        action: One of ``DECISIONS``, except the first, or ``SKIPPED``.
        label: The chosen class; None if the action has none.
    """

    row: int
    id: bytes
    version: int
    action: str
    label: int | None = None


class OvertakenError(Exception):
    """The row changed after the reviewer saw it; ``entry`` is the latest change."""

    def __init__(self, entry: Entry) -> None:
        super().__init__(f"row {entry.row} was {entry.action} by {entry.reviewer}")
        self.entry = entry


class TicketError(PencilError):
    """The ticket was already used for another request or by another client."""

    def __init__(self) -> None:
        super().__init__("ticket: already used for another request; send a new one")


@dataclass(frozen=True)
class History:
    """Adds entries and updates the queue, in the round of the queue; must be called within ``Database.writing``."""

    database: Database
    queue: Queue

    def decide(self, who: Who, ticket: str, choices: Sequence[Choice]) -> list[Entry]:
        """Record decisions or skips, all or none; if the ticket was already recorded, return its entries.

        Raises:
            OvertakenError: One of the rows was decided or undone in the meantime.
            TicketError: The ticket was used for another request.
        """
        known = self._request(ticket)
        if known:
            asked = [(who.client, choice.row, choice.action, choice.label) for choice in choices]
            made = [(entry.client, entry.row, entry.action, entry.label) for entry in known]
            return _repeated(known, asked == made)
        for choice in choices:
            self._check(choice)
        return self._enter(who, ticket, choices)

    def _check(self, choice: Choice) -> None:
        """Check that nobody has decided on the row since the reviewer saw it."""
        last = self._find(
            "round = ? AND row = ? AND version IS NOT NULL ORDER BY version DESC LIMIT 1",
            self.queue.round,
            choice.row,
        )
        if last is not None and (last.version != choice.version or last.decides):
            raise OvertakenError(last)
        if last is None and choice.version:
            raise RunError(f"row {choice.row}: version {choice.version} does not exist; reload the page")

    def undo(self, who: Who, ticket: str, entry: int | None = None) -> list[Entry]:
        """Undo an entry, or by default all entries of the client's newest request; return the undos, if any.

        The rows become open again and are reserved for this client. Undos are recorded as entries.

        Raises:
            OvertakenError: The entry was already undone.
            TicketError: The ticket was used for another request.
        """
        known = self._request(ticket)
        if known:
            asked = [each.undoes for each in known] if entry is None else [entry]
            same = all(each.client == who.client and each.action == UNDONE for each in known)
            return _repeated(known, same and asked == [each.undoes for each in known])
        made = self._newest_of(who.client) if entry is None else self._undoable(entry)
        undos = [Choice(each.row, each.id, self.version(each.row, each.round), UNDONE) for each in made]
        return self._enter(who, ticket, undos, made)

    def version(self, row: int, round_: str | None = None) -> int:
        """The number of decisions and undos of a row, by default in this round."""
        query = "SELECT MAX(version) FROM history WHERE round = ? AND row = ?"
        found = self.database.find(query, (round_ or self.queue.round, row))
        return 0 if found is None or found[0] is None else int(found[0])

    def standing(self, row: int) -> Entry | None:
        """The decision about a row that is in force; None if there is none."""
        return self._find(f"round = ? AND row = ? AND {IN_FORCE}", self.queue.round, row)

    def newest(self, count: int) -> list[Entry]:
        """The newest decisions in force, newest first."""
        return self._all(f"round = ? AND {IN_FORCE} ORDER BY entry DESC LIMIT ?", self.queue.round, count)

    def entry(self, number: int) -> Entry:
        """An entry by its number."""
        found = self._find("entry = ?", number)
        assert found is not None
        return found

    def _newest_of(self, client: str) -> list[Entry]:
        """The entries of the client's newest request that nobody has undone."""
        mine = f"round = ? AND client = ? AND action <> ? AND {NOT_UNDONE}"
        values = (self.queue.round, client, UNDONE)
        newest = self._find(f"{mine} ORDER BY entry DESC LIMIT 1", *values)
        return [] if newest is None else self._all(f"{mine} AND request = ?", *values, newest.request)

    def _undoable(self, entry: int) -> list[Entry]:
        made = self._find("entry = ?", entry)
        if made is None:
            return []
        again = made if made.action == UNDONE else self._find("undoes = ?", made.entry)
        if again is not None:
            raise OvertakenError(again)
        return [made]

    def _enter(
        self, who: Who, ticket: str, choices: Sequence[Choice], undone: Sequence[Entry] = ()
    ) -> list[Entry]:
        first = (self.database.find("SELECT COALESCE(MAX(entry), 0) + 1 FROM history") or (1,))[0]
        for number, choice in enumerate(choices):
            before = undone[number] if undone else None
            counts = choice.action in DECISIONS[1:] or (before is not None and before.decides)
            self.database.run(
                _INSERT,
                (
                    *(first, before.round if before else self.queue.round, choice.row, choice.id),
                    *(choice.version + 1 if counts else None, choice.action, choice.label),
                    *(before.entry if before else None, who.reviewer, who.client, _now()),
                    None if number else ticket,
                ),
            )
        made = self._all("request = ? ORDER BY entry", first)
        self._move(who.client, made, undone)
        return made

    def _move(self, client: str, made: Sequence[Entry], undone: Sequence[Entry]) -> None:
        """Update the queue for new entries."""
        for entry in made:
            if entry.decides:
                self.queue.close(entry.row)
            elif entry.action == SKIPPED:
                self.queue.set_aside(entry.row, client, entry.entry)
        for entry in undone:
            if entry.decides:
                self.queue.open_again(entry.row, entry.round)
        mine = [entry.row for entry in undone if entry.round == self.queue.round]
        if mine:
            self.queue.take_back(mine, client)

    def _request(self, ticket: str) -> list[Entry]:
        """The entries of the request with this ticket; empty if there is none."""
        return self._all("request = (SELECT entry FROM history WHERE ticket = ?) ORDER BY entry", ticket)

    def _find(self, condition: str, *values: int | str) -> Entry | None:
        found = self.database.find(f"{_ENTRY} WHERE {condition}", values)
        return None if found is None else Entry(*found)

    def _all(self, condition: str, *values: int | str) -> list[Entry]:
        return [Entry(*found) for found in self.database.find_all(f"{_ENTRY} WHERE {condition}", values)]


def _repeated(known: list[Entry], same: bool) -> list[Entry]:
    """Return the entries of a repeated request; reveal nothing about tickets of other clients."""
    if not same:
        raise TicketError
    return known


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
