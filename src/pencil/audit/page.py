"""An audit on the page of ``pencil review``: one label at a time, without given and suggested label."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from pencil.audit.findings import bounds_in_words, findings
from pencil.audit.labels import FrozenLabels
from pencil.audit.record import Audit, Item
from pencil.audit.session import answer
from pencil.data import Beside
from pencil.errors import ConfigError
from pencil.review.history import Entry, Who
from pencil.review.identity import identity_of
from pencil.review.items import as_json_text
from pencil.review.pictures import open_pictures
from pencil.run import RunDirectory

Reply = dict[str, Any]


class AuditPage:
    """The requests of the page, and their answers (see ``pencil.review.session.Session``).

    An item has the look's number as its version, so that a label that is shown twice is two items.

    Args:
        directory: The run.
        audit: The audit to continue.
        labels: The labels that it is about.
        changed_data: Whether to show data that changed after training.
        beside: Images or texts to show for the rows.
    """

    def __init__(
        self,
        directory: RunDirectory,
        audit: Audit,
        labels: FrozenLabels,
        *,
        changed_data: bool = False,
        beside: Beside | None = None,
    ) -> None:
        self.directory, self.audit, self._labels = directory, audit, labels
        self._numbers = {name: number for number, name in enumerate(labels.names)}
        self.identity = identity_of(directory, "audit", audit.plan.model_dump_json(), *labels.names)
        self._lock = threading.Lock()
        self._back: int | None = None  # the look to answer again
        self._tickets: dict[str, list[Reply]] = {}
        self._pictures, self.trouble = open_pictures(directory, changed_data=changed_data, beside=beside)

    @property
    def matched(self) -> str | None:
        """How many rows have an attached image or text; None if nothing is attached."""
        return None if self._pictures is None else self._pictures.matched

    def start(self) -> Reply:
        """What the page loads once. ``blind`` hides everything about the given and the suggested label."""
        return {
            "run": self.directory.path.absolute().name,
            "goal": None,
            "blind": True,
            "classes": [as_json_text(name) for name in self._labels.names],
            "images": self._pictures is not None and self._pictures.are_images,
            "texts": self._pictures is not None and self._pictures.are_texts,
            "trouble": self.trouble,
            **self._state(),
        }

    def take(self, client: str, count: int = 1) -> Reply:
        """The next item; there is one at a time."""
        item = self._current()
        return {"items": [] if item is None else [self._shown(item)], **self._state()}

    def decide(
        self,
        who: Who,
        ticket: str,
        seen: Sequence[tuple[int, int]],
        action: str,
        label: int | None = None,
        count: int = 1,
    ) -> Reply:
        """Record the answer to the current item: ``choose`` a class, or ``drop`` it as one that cannot be judged."""
        with self._lock:
            if ticket not in self._tickets:
                self._tickets[ticket] = [self._record(who, seen, action, label)]
            return {"made": self._tickets[ticket], **self.take(who.client)}

    def undo(self, who: Who, ticket: str, entry: int | None = None, count: int = 1) -> Reply:
        """Show the item before the current one again; its next answer replaces the one before."""
        with self._lock:
            current = self._current()
            before = len(self.audit.items) if current is None else current.number - 1
            if ticket not in self._tickets:
                self._tickets[ticket] = [self._made(before, None, "undone", who)] if before else []
                self._back = before or self._back
            return {"undone": self._tickets[ticket], **self.take(who.client)}

    def recent(self) -> list[Reply]:
        """Nothing: earlier answers are not shown, because labels come again."""
        return []

    def disagreements(self) -> list[Reply]:
        """Nothing, as above."""
        return []

    def describe(self, made: Entry) -> Reply:
        """An entry of a review as plain values."""
        return {**asdict(made), "id": as_json_text(made.id.decode("utf-8", "surrogateescape"))}

    def references(self, label: int) -> list[int]:
        """None: an audit shows nothing of other rows."""
        return []

    def picture(self, row: int, longest: int | None = None) -> bytes | None:
        """The image of a drawn row as PNG; None if it has no image."""
        row_id = self._id_of(row)
        return None if self._pictures is None else self._pictures.png(row, row_id, longest)

    def text(self, row: int) -> str | None:
        """The text of a drawn row; None if it has no text."""
        row_id = self._id_of(row)
        found = None if self._pictures is None else self._pictures.text(row, row_id)
        return None if found is None else as_json_text(found)

    def _id_of(self, row: int) -> str:
        if all(item.row != row for item in self.audit.items):
            raise ConfigError(f"row {row}: is not in the sample; reload the page")
        return self._labels.table.row(row).ids[0]

    def _current(self) -> Item | None:
        return self.audit.next_item if self._back is None else self.audit.items[self._back - 1]

    def _record(self, who: Who, seen: Sequence[tuple[int, int]], action: str, label: int | None) -> Reply:
        name, chosen = self._chosen(action, label)
        current = self._current()
        if current is None or [tuple(each) for each in seen] != [(current.row, current.number)]:
            look = seen[0][1]
            if self.audit.labels.get(look, "") == name:  # a repeated request, to a server that was restarted
                return self._made(look, chosen, "answered", who)
            raise ConfigError("items: this label is not the current one; reload the page")
        self.audit = answer(self.directory, self.audit, self._labels, [(current.number, name)], who.reviewer)
        self._back = None
        return self._made(current.number, chosen, "answered", who)

    def _chosen(self, action: str, label: int | None) -> tuple[str | None, int | None]:
        """The class of an action by name and number; None if the label cannot be judged."""
        if action == "drop":
            return None, None
        if action != "choose":
            raise ConfigError(f"action: {action!r} is unknown in an audit; use choose or drop")
        if label is None or not 0 <= label < len(self._labels.names):
            raise ConfigError(f"label: {label} is not a class; use 0 to {len(self._labels.names) - 1}")
        return self._labels.names[label], label

    def _made(self, look: int, label: int | None, action: str, who: Who) -> Reply:
        return {
            "entry": look,
            "row": self.audit.items[look - 1].row,
            "id": f"label {look}",
            "action": action,
            "label": label,
            "verdict": None,
            "reviewer": who.reviewer,
            "at": "",
        }

    def _shown(self, item: Item) -> Reply:
        """An item without its labels; with its id only if there is nothing else to show, since it may name a class."""
        hidden = f"label {item.number} of {len(self.audit.items)}"
        return {
            "row": item.row,
            "id": item.id if self._pictures is None else hidden,
            "version": item.number,
            "given": None,
            "verdict": None,
            "p_wrong": None,
            "likely": [[self._numbers[name], None] for name in item.choices],
        }

    def _state(self) -> Reply:
        found = findings(self.audit)
        progress = {"total": found["looks"], "decided": found["answered"]}
        statement = "; ".join(bounds_in_words(self.audit, found))
        return {"progress": progress, "forecast": None, "agreement": None, "statement": statement}
