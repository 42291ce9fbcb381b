"""A review of a run: its answers to the requests of the page."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache, partial
from typing import NamedTuple

from pencil.data import Beside
from pencil.errors import ConfigError, RunError
from pencil.results.decisions import FIRST
from pencil.results.judged import verdict_of
from pencil.results.review_file import REVIEW_FILE
from pencil.review.database import Database
from pencil.review.elsewhere import newest_recorded
from pencil.review.history import Choice, Entry, History, Who
from pencil.review.identity import digest_of, identity_of
from pencil.review.items import (
    ACTIONS,
    Answer,
    Labels,
    Seen,
    as_json_text,
    forecast,
    labels_of,
    looks_until_stop,
)
from pencil.review.opinions import SECOND, agreement_of, decided_rows
from pencil.review.orders import ALL, ASKED, CLEAN, DUPLICATES, Order, order_by, order_of_groups
from pencil.review.pictures import open_pictures
from pencil.review.queue import LEASE_SECONDS, Part, Queue
from pencil.review.references import reference_rows
from pencil.run import LabelTable, RunDirectory
from pencil.run.provenance import belief_digest

SHOWN_LATELY = 128  # rows whose labels are cached, because a decision follows soon after a row is shown
RECENT = 20  # decisions in the list of recent decisions
LOOKS = 100  # looks of the forecast
STOP_BELOW = 5.0  # errors expected in that many looks
FARTHEST = 100_000  # looks ahead to find the moment to stop


class Taken(NamedTuple):
    """Rows assigned to a client, and the state of the queue at that moment."""

    seen: list[Seen]
    state: Answer


class Review:
    """The review of a finished run.

    Args:
        directory: The run.
        goal: What happens to rows that nobody reviews (one of ``GOALS``); decides the order. ``DUPLICATES`` shows
            near-identical rows with different labels instead.
        second_opinion: Show the decided rows again, without the decisions; they stay as they are.
        with_sure: Whether to queue the rows with verdict ``keep`` too, in the same order.
        stop_below: Suggest to stop if the next 100 looks are expected to find fewer errors than this.
        lease_seconds: How long a row stays reserved for its reviewer.
        max_false_relabels: Replaces the share of the run's verdict rule.
        changed_data: Whether to show data that changed after training.
        beside: Images or texts to show for the rows.
    """

    def __init__(
        self,
        directory: RunDirectory,
        *,
        goal: str = CLEAN,
        second_opinion: bool = False,
        with_sure: bool = False,
        stop_below: float = STOP_BELOW,
        lease_seconds: float = LEASE_SECONDS,
        max_false_relabels: float | None = None,
        changed_data: bool = False,
        beside: Beside | None = None,
    ) -> None:
        self.directory, self.goal, self.second_opinion = directory, goal, second_opinion
        self._stop_below = stop_below
        self._reading = threading.Lock()
        # Answers to questions change the order; decisions on this page do not, so that it goes on after a restart.
        self._table = LabelTable.open(directory, max_false_relabels, entry=newest_recorded(directory.path))
        if goal == DUPLICATES:
            _check_compared(directory, self._table)
        self.labels = lru_cache(maxsize=SHOWN_LATELY)(self._read)  # labels of a row
        self._database = Database(directory.path / REVIEW_FILE)
        round_ = SECOND if second_opinion else FIRST
        self._source = f"{belief_digest(directory.path)} {self._table.version}".strip()
        self.identity = identity_of(directory, round_, self._source, *self.class_names)
        self._queue = Queue(self._database, lease_seconds=lease_seconds, round=round_)
        self._history = History(self._database, self._queue)
        with self._database.writing():
            self._queue.fill(self._about(), self._parts(with_sure))
        self._pictures, self.trouble = open_pictures(directory, changed_data=changed_data, beside=beside)

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes by number."""
        return self._table.class_names

    @property
    def matched(self) -> str | None:
        """How many rows have an attached image or text; None if nothing is attached."""
        return None if self._pictures is None else self._pictures.matched

    def stop(self) -> None:
        """Interrupt the requests of other threads, before this one asks for the last time and closes the file."""
        self._database.stop()

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def _parts(self, with_sure: bool) -> Mapping[str, Part]:
        if self.second_opinion:
            newest = self._database.find("SELECT MAX(entry) FROM history WHERE round = ?", (FIRST,))
            return {SECOND: Part(str(newest), partial(decided_rows, self._database))}
        name = f"{self.goal}, all rows" if with_sure else self.goal
        return {name: Part(self._source, partial(self._order, ALL if with_sure else ASKED[self.goal]))}

    def _order(self, verdicts: Sequence[int]) -> Order:
        """The rows, decided ones too, by what is known without the decisions on this page."""
        if self.goal == DUPLICATES and self._table.near is not None:
            return order_of_groups(self._table.chunks(decided=False), self._table.near)
        return order_by(self.goal, self._table.chunks(decided=False), verdicts)

    def _about(self) -> Mapping[str, str]:
        return {"rows": str(len(self._table)), "classes": digest_of(self.class_names)}

    # requests

    def start(self) -> Answer:
        """The data that the page loads once."""
        return {
            "run": self.directory.path.absolute().name,
            "goal": None if self.second_opinion else self.goal,
            "classes": list(self.class_names),
            "images": self._pictures is not None and self._pictures.are_images,
            "texts": self._pictures is not None and self._pictures.are_texts,
            "trouble": self.trouble,
            **self._state(),
        }

    def progress(self) -> dict[str, int]:
        """The number of rows, and how many are decided."""
        return self._queue.progress()

    def looks_until_stop(self) -> int | None:
        """How many looks it takes until the forecast suggests to stop; None if it does not soon."""
        return looks_until_stop(self._queue.chances(FARTHEST), LOOKS, self._stop_below)

    def take(self, client: str, count: int = 1) -> Answer:
        """Reserve the next rows for a client and return them."""
        with self._database.writing():
            taken = self._take(client, count)
        return self._answer(taken)

    def decide(
        self,
        who: Who,
        ticket: str,
        seen: Sequence[tuple[int, int]],
        action: str,
        label: int | None = None,
        count: int = 1,
    ) -> Answer:
        """Carry out an action on rows and return the next ones, both in one transaction.

        Args:
            who: The sender of the request.
            ticket: Identifies the request; a repeated one is carried out once.
            seen: The rows, and the version in which the reviewer saw each (see ``Seen``).
            action: One of ``ACTIONS``.
            label: The class to ``choose``.
            count: How many rows to return.

        Raises:
            OvertakenError: A row was decided or undone in the meantime; nothing was recorded.
        """
        self._check(seen, action, label)
        choices = [self._choice(Seen(*each), action, label) for each in seen]
        with self._database.writing():
            made = self._history.decide(who, ticket, choices)
            taken = self._take(who.client, count)
        return {"made": [self.describe(entry) for entry in made], **self._answer(taken)}

    def _choice(self, seen: Seen, action: str, label: int | None) -> Choice:
        known = self.labels(seen.row)
        return Choice(
            seen.row,
            known.id.encode("utf-8", "surrogateescape"),
            seen.version,
            *known.decision(action, label),
        )

    def undo(self, who: Who, ticket: str, entry: int | None = None, count: int = 1) -> Answer:
        """Undo ``entry``, by default all entries of the client's newest request, and return their rows again.

        Raises:
            OvertakenError: The entry was already undone.
        """
        with self._database.writing():
            undone = self._history.undo(who, ticket, entry)
            taken = self._take(who.client, count)
        return {"undone": [self.describe(made) for made in undone], **self._answer(taken)}

    def recent(self) -> list[Answer]:
        """The newest decisions in force."""
        return [self.describe(made) for made in self._history.newest(RECENT)]

    def disagreements(self) -> list[Answer]:
        """Rows whose second opinion differs from the first decision; undoing that brings them back to the review."""
        return [
            {
                name: self.describe(self._history.entry(entry))
                for name, entry in zip(("first", "second"), pair, strict=True)
            }
            for pair in agreement_of(self._database).differ
        ]

    def picture(self, row: int, longest: int | None = None) -> bytes | None:
        """The image of a row as PNG, by default as large as a page shows; None if it has no image."""
        self._check_row(row)
        return None if self._pictures is None else self._pictures.png(row, self.labels(row).id, longest)

    def text(self, row: int) -> str | None:
        """The text of a row; None if it has no text."""
        self._check_row(row)
        found = None if self._pictures is None else self._pictures.text(row, self.labels(row).id)
        return None if found is None else as_json_text(found)

    def references(self, label: int) -> list[int]:
        """Rows whose given label is this class and most surely right. The first call reads all labels once."""
        self._check_label(label)
        if self._pictures is None:
            return []
        with self._reading:
            return self._reference_rows.get(label, [])

    @cached_property
    def _reference_rows(self) -> dict[int, list[int]]:
        return reference_rows(self._table.chunks(decided=False))

    def _read(self, row: int) -> Labels:
        return labels_of(self._table.row(row))

    def describe(self, made: Entry) -> Answer:
        """Convert an entry to plain values."""
        return {
            "entry": made.entry,
            "row": made.row,
            "id": as_json_text(made.id.decode("utf-8", "surrogateescape")),
            "action": made.action,
            "label": made.label,
            "verdict": verdict_of(made.action) if made.decides else None,
            "reviewer": made.reviewer,
            "at": made.at,
        }

    def _take(self, client: str, count: int) -> Taken:
        rows = self._queue.take(client, count)
        return Taken([Seen(row, self._history.version(row)) for row in rows], self._state())

    def _answer(self, taken: Taken) -> Answer:
        """The response for assigned rows, read after the transaction so that it does not block others."""
        return {"items": [self.labels(seen.row).item(seen) for seen in taken.seen], **taken.state}

    def _state(self) -> Answer:
        """Progress, and what the next looks are expected to find or how far two opinions agree."""
        if not self.second_opinion:
            found = forecast(self._queue.chances(LOOKS), LOOKS, self._stop_below)
            return {"progress": self.progress(), "forecast": found, "agreement": None}
        agreed = agreement_of(self._database)
        words = {"both": agreed.both, "agree": agreed.agree, "share": agreed.share, "kappa": agreed.kappa}
        return {"progress": self.progress(), "forecast": None, "agreement": words}

    def _check_row(self, row: int) -> None:
        if not 0 <= row < len(self._table):
            raise ConfigError(f"row {row}: the run has {len(self._table)} rows; reload the page")

    def _check(self, seen: Sequence[tuple[int, int]], action: str, label: int | None) -> None:
        for row, _ in seen:
            self._check_row(row)
        if len({row for row, _ in seen}) < len(seen):
            raise ConfigError("items: a row is listed twice; list each row once")
        if action not in ACTIONS:
            raise ConfigError(f"action: {action!r} is unknown; use {', '.join(ACTIONS)}")
        if action == "choose":
            self._check_label(label)

    def _check_label(self, label: int | None) -> None:
        if label is None or not 0 <= label < len(self.class_names):
            raise ConfigError(f"label: {label} is not a class; use 0 to {len(self.class_names) - 1}")


def _check_compared(directory: RunDirectory, table: LabelTable) -> None:
    """Check that there are near-identical rows with different labels."""
    if table.near is None:
        raise RunError(
            f"--goal duplicates: {directory.path} did not look for near-identical rows; use another goal, or train on "
            "features (pencil train DATA --embed MODEL)"
        )
    if not table.near.counts.differing_groups:
        raise RunError(
            f"--goal duplicates: {directory.path} has no near-identical rows with different labels; use another goal"
        )
