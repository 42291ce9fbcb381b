"""A review of a run: its requests and responses, independent of HTTP."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pencil.algorithm import TopRows
from pencil.errors import ConfigError, PencilError
from pencil.results import DECISIONS, VERDICTS
from pencil.results.decisions import REVIEW_FILE, SKIPPED
from pencil.results.judged import ACCEPTED, CHANGED, DROPPED, KEPT, verdict_of
from pencil.review.database import Database
from pencil.review.history import Entry, History, OvertakenError, Seen, Who
from pencil.review.pictures import Pictures
from pencil.review.queue import DOUBTFUL, LEASE_SECONDS, SURE, VERDICTS_OF_PART, Queue, rows_by_doubt
from pencil.run import ChangedDataError, LabelTable, RunDirectory, rows_to_show

SHOWN = 5  # classes shown for an item
SHOWN_LATELY = 64  # items whose labels are cached, because a decision follows soon after an item is shown
RECENT = 20  # decisions in the list of recent decisions
ACTIONS = ("accept", "keep", "choose", "drop", "skip")

Answer = dict[str, Any]


@dataclass(frozen=True)
class Labels:
    """The labels of one row.

    Attributes:
        id: The row's id in the data set.
        given: The given class.
        verdict: The verdict.
        likely: The most likely classes with their probabilities, in descending order.
    """

    id: str
    given: int
    verdict: str
    likely: tuple[tuple[int, float], ...]

    @property
    def suggested(self) -> int:
        """The most likely class."""
        return self.likely[0][0]

    def decision(self, action: str, label: int | None) -> tuple[str, int | None]:
        """Return the decision and label of an action; choosing the given class by any key counts as keeping it."""
        if action in ("drop", "skip"):
            return (DECISIONS[DROPPED] if action == "drop" else SKIPPED), None
        chosen = {"accept": self.suggested, "keep": self.given}.get(action, label)
        if chosen == self.given:
            return DECISIONS[KEPT], chosen
        return DECISIONS[ACCEPTED if chosen == self.suggested else CHANGED], chosen


class Taken(NamedTuple):
    """An item assigned to a client: its place and version (None and 0 if no item is left), and the overall progress."""

    place: int | None
    version: int
    progress: dict[str, int]


class Review:
    """The review of a finished run.

    Args:
        directory: The run.
        with_sure: Whether to queue the rows with verdict ``keep`` too, after all others.
        lease_seconds: How long an item stays reserved for its reviewer.
    """

    def __init__(
        self,
        directory: RunDirectory,
        *,
        with_sure: bool = False,
        lease_seconds: float = LEASE_SECONDS,
        changed_data: bool = False,
    ) -> None:
        self.directory = directory
        self._table = LabelTable.open(directory)
        self.labels = lru_cache(maxsize=SHOWN_LATELY)(self._read)  # labels of a row
        self._database = Database(directory.path / REVIEW_FILE)
        self._queue = Queue(self._database, lease_seconds=lease_seconds)
        self._history = History(self._database, self._queue)
        parts = (DOUBTFUL, SURE) if with_sure else (DOUBTFUL,)
        with self._database.writing():
            self._queue.fill(self._about(), {part: partial(self._rows_of, part) for part in parts})
        self.trouble: str | None = None
        self._pictures = self._open_pictures(changed_data)

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes by number."""
        return self._table.class_names

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def _rows_of(self, part: str) -> NDArray[np.int64]:
        """Rows of a part by their learned labels, so that decisions do not move rows between parts."""
        return rows_by_doubt(self._table.chunks(decided=False), VERDICTS_OF_PART[part])

    def _about(self) -> Mapping[str, str]:
        names = "\0".join(self.class_names).encode("utf-8", "surrogateescape")
        return {"rows": str(len(self._table)), "classes": hashlib.sha256(names).hexdigest()}

    def _open_pictures(self, changed_data: bool) -> Pictures | None:
        """Open the images or texts; None for plain numbers, or if the data cannot be read (see ``trouble``)."""
        try:
            pictures = Pictures(rows_to_show(self.directory, changed_data=changed_data).train)
            return pictures if pictures.are_images or pictures.are_texts else None
        except ChangedDataError:
            raise
        except PencilError as error:
            self.trouble = f"no images are shown: {error}"
            return None

    # requests

    def start(self) -> Answer:
        """The data that the page loads once."""
        return {
            "run": self.directory.path.absolute().name,
            "classes": list(self.class_names),
            "images": self._pictures is not None and self._pictures.are_images,
            "texts": self._pictures is not None and self._pictures.are_texts,
            "trouble": self.trouble,
            "progress": self.progress(),
        }

    def progress(self) -> dict[str, int]:
        """The number of items, and how many are decided."""
        return self._queue.progress()

    def take_next(self, client: str) -> Answer:
        """The next item for a client."""
        with self._database.writing():
            taken = self._take(client)
        return self._answer(taken)

    def decide(
        self, who: Who, ticket: str, place: int, version: int, action: str, label: int | None = None
    ) -> Answer:
        """Carry out an action on an item and return the next one, both in one transaction.

        Raises:
            OvertakenError: The item was decided or undone in the meantime.
        """
        self._check(action, label)
        row = self._row(place)
        known = self.labels(row)
        seen = Seen(place, row, known.id.encode("utf-8", "surrogateescape"), version)
        decision, chosen = known.decision(action, label)
        with self._database.writing():
            made = self._history.decide(who, ticket, seen, decision, chosen)
            taken = self._take(who.client)
        return {"made": self.describe(made), **self._answer(taken)}

    def undo(self, who: Who, ticket: str, entry: int | None = None) -> Answer:
        """Undo ``entry``, by default the client's newest, and return its item again.

        Raises:
            OvertakenError: The entry was already undone.
        """
        with self._database.writing():
            undone = self._history.undo(who, ticket, entry)
            taken = self._take(who.client)
        return {"undone": None if undone is None else self.describe(undone), **self._answer(taken)}

    def recent(self) -> list[Answer]:
        """The newest decisions in force."""
        return [self.describe(made) for made in self._history.newest(RECENT)]

    def picture(self, place: int) -> bytes | None:
        """The image of an item as PNG; None if it has no image."""
        row = self._row(place)
        return None if self._pictures is None else self._pictures.png(row, self.labels(row).id)

    def text(self, place: int) -> str | None:
        """The text of an item; None if it has no text."""
        row = self._row(place)
        found = None if self._pictures is None else self._pictures.text(row, self.labels(row).id)
        return None if found is None else _shown(found)

    def _read(self, row: int) -> Labels:
        judged = self._table.undecided(row)
        belief = judged.distribution
        whole = (belief.dense() if isinstance(belief, TopRows) else belief)[0]
        best = whole.nan_to_num().sort(descending=True, stable=True)  # JSON does not support NaN
        likely = tuple(zip(best.indices[:SHOWN].tolist(), best.values[:SHOWN].tolist(), strict=True))
        return Labels(judged.ids[0], int(judged.given[0]), VERDICTS[int(judged.verdict[0])], likely)

    def describe(self, made: Entry) -> Answer:
        """Convert an entry to plain values."""
        return {
            "entry": made.entry,
            "place": made.place,
            "id": _shown(made.id.decode("utf-8", "surrogateescape")),
            "action": made.action,
            "label": made.label,
            "verdict": verdict_of(made.action) if made.decides else None,
            "reviewer": made.reviewer,
            "at": made.at,
        }

    def _take(self, client: str) -> Taken:
        place = self._queue.take_next(client)
        version = 0 if place is None else self._history.version(place)
        return Taken(place, version, self._queue.progress())

    def _answer(self, taken: Taken) -> Answer:
        """The response for an assigned item, read after the transaction so that it does not block others."""
        item = None if taken.place is None else self._item(taken.place, taken.version)
        return {"item": item, "progress": taken.progress}

    def _item(self, place: int, version: int) -> Answer:
        row = self._row(place)
        known = self.labels(row)
        return {
            "place": place,
            "row": row,
            "id": _shown(known.id),
            "version": version,
            "given": known.given,
            "verdict": known.verdict,
            "likely": [[label, round(share, 6)] for label, share in known.likely],
        }

    def _row(self, place: int) -> int:
        row = self._queue.row_at(place)
        if row is None:
            raise ConfigError(f"item {place}: not in the queue; reload the page")
        return row

    def _check(self, action: str, label: int | None) -> None:
        if action not in ACTIONS:
            raise ConfigError(f"action: {action!r} is unknown; use {', '.join(ACTIONS)}")
        if action == "choose" and (label is None or not 0 <= label < len(self.class_names)):
            raise ConfigError(f"label: {label} is not a class; use 0 to {len(self.class_names) - 1}")


def _shown(text: str) -> str:
    """Replace bytes of a file name that are not text, which JSON does not allow."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


__all__ = ["ACTIONS", "Answer", "Labels", "OvertakenError", "Review"]
