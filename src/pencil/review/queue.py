"""The queue of rows to review, most doubtful first, and their reservations."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pencil.errors import RunError
from pencil.results import KEEP, RELABEL, REVIEW, VERDICTS, Judged
from pencil.review.database import Database

LEASE_SECONDS = 300.0
BATCH = 1 << 16
DOUBTFUL, SURE = "doubtful", "sure"  # parts of the queue
VERDICTS_OF_PART: Mapping[str, tuple[int, ...]] = {DOUBTFUL: (REVIEW, RELABEL), SURE: (KEEP,)}
"""The verdicts in each part of the queue, in order."""

_FREE = """
  NOT EXISTS (SELECT 1 FROM leases WHERE leases.place = queue.place AND client <> :client AND until > :now)
"""
_NEXT = f"""
SELECT place FROM queue INDEXED BY queue_open WHERE decided = 0 AND place <= :last AND {_FREE}
  AND NOT EXISTS (SELECT 1 FROM skips WHERE skips.place = queue.place AND client = :client)
ORDER BY place LIMIT 1
"""  # noqa: S608 - built from constants only
_SKIPPED = f"""
SELECT queue.place FROM skips JOIN queue USING (place)
WHERE skips.client = :client AND decided = 0 AND queue.place <= :last AND {_FREE} ORDER BY skips.entry LIMIT 1
"""  # noqa: S608 - as above
_MINE = """
SELECT place FROM leases JOIN queue USING (place)
WHERE client = :client AND until > :now AND decided = 0 AND place <= :last LIMIT 1
"""


@dataclass
class Queue:
    """Assigns items to clients. All methods except ``row_at`` must be called within ``Database.writing``.

    Attributes:
        database: The database of the queue.
        clock: Returns the time in seconds, for the end of reservations.
        lease_seconds: How long an item stays reserved for its client.
        with_sure: Whether to assign the rows of the second part too.
    """

    database: Database
    clock: Callable[[], float] = time.time
    lease_seconds: float = LEASE_SECONDS
    with_sure: bool = False

    def fill(self, about: Mapping[str, str], parts: Mapping[str, Callable[[], NDArray[np.int64]]]) -> None:
        """Append the rows of each part that is not in the queue yet.

        Args:
            about: Identifies the labels of the queue; a queue of other labels is rejected.
            parts: Row indices (M,) in order, by part: ``DOUBTFUL`` and optionally ``SURE``.
        """
        for name, value in about.items():
            self.database.run("INSERT OR IGNORE INTO about VALUES (?, ?)", (name, value))
            kept = self.database.find("SELECT value FROM about WHERE name = ?", (name,))
            if kept != (value,):
                raise RunError(
                    f"{self.database.path}: belongs to other labels than this run's ({name} differs); move it away"
                )
        for part, indices in parts.items():
            if self.database.find("SELECT 1 FROM parts WHERE part = ?", (part,)) is None:
                self._append(part, indices())
        self.with_sure = SURE in parts

    def _append(self, part: str, indices: NDArray[np.int64]) -> None:
        first = 1 + self._number("SELECT COALESCE(MAX(last), 0) FROM parts")
        for start in range(0, len(indices), BATCH):
            some = indices[start : start + BATCH].tolist()
            self.database.run_many(
                "INSERT INTO queue (place, row) VALUES (?, ?)", enumerate(some, start=first + start)
            )
        self.database.run(
            "INSERT INTO parts (part, first, last) VALUES (?, ?, ?)", (part, first, first + len(indices) - 1)
        )

    def progress(self) -> dict[str, int]:
        """The number of items, and how many are decided."""
        query = "SELECT SUM(last - first + 1), SUM(decided) FROM parts WHERE part = ? OR ?"
        total, decided = self.database.find(query, (DOUBTFUL, self.with_sure)) or (0, 0)
        return {"total": total, "decided": decided}

    def take_next(self, client: str) -> int | None:
        """Reserve the next item for a client and return its place; None if no item is left.

        The client's reserved item comes first, then unreserved items, then items it skipped, oldest skip first.
        """
        now = self.clock()
        last = self._number("SELECT MAX(last) FROM parts WHERE part = ? OR ?", DOUBTFUL, self.with_sure)
        for query in (_MINE, _NEXT, _SKIPPED):
            found = self.database.find(query, {"client": client, "now": now, "last": last})
            if found is not None:
                self.lease(found[0], client)
                return int(found[0])
        return None

    def lease(self, place: int, client: str) -> None:
        """Reserve an item for a client and release its other reservations."""
        self.database.run("DELETE FROM leases WHERE client = ?", (client,))
        until = self.clock() + self.lease_seconds
        self.database.run("INSERT OR REPLACE INTO leases VALUES (?, ?, ?)", (place, client, until))

    def close(self, place: int) -> None:
        """Mark an item as decided."""
        self._mark(place, decided=1)
        self.database.run("DELETE FROM leases WHERE place = ?", (place,))

    def open_again(self, place: int) -> None:
        """Mark an item as undecided."""
        self._mark(place, decided=0)

    def set_aside(self, place: int, client: str, entry: int) -> None:
        """Record that the client skipped an item; it comes again after all others."""
        self.database.run("DELETE FROM leases WHERE client = ?", (client,))
        self.database.run("INSERT OR REPLACE INTO skips VALUES (?, ?, ?)", (client, place, entry))

    def take_back(self, place: int, client: str) -> None:
        """Reserve an item for a client, even if the client skipped it."""
        self.database.run("DELETE FROM skips WHERE client = ? AND place = ?", (client, place))
        self.lease(place, client)

    def row_at(self, place: int) -> int | None:
        """The row number of an item; None if the queue has no such place."""
        found = self.database.find("SELECT row FROM queue WHERE place = ?", (place,))
        return None if found is None else int(found[0])

    def _mark(self, place: int, *, decided: int) -> None:
        self.database.run("UPDATE queue SET decided = ? WHERE place = ?", (decided, place))
        self.database.run(
            "UPDATE parts SET decided = decided + ? WHERE ? BETWEEN first AND last",
            (1 if decided else -1, place),
        )

    def _number(self, query: str, *values: int | str) -> int:
        found = self.database.find(query, values)
        return 0 if found is None else int(found[0])


def rows_by_doubt(chunks: Iterable[Judged], verdicts: Sequence[int]) -> NDArray[np.int64]:
    """Row numbers (M,) of the rows with one of these verdicts, most doubtful first.

    Sorted by verdict in the given order, then by p_wrong, largest first, then by row number. Trusted rows are left out,
    because they were verified before training. Needs 16 bytes for each of the M rows.

    Args:
        chunks: A run's labels, beginning with row 0.
        verdicts: The verdicts to include, as indices into ``VERDICTS``.
    """
    found: list[NDArray[np.int64]] = []
    keys: list[NDArray[np.float64]] = []
    for judged in chunks:
        own = judged.verdict.numpy()
        # A probability is at most 1, so verdicts stay separate.
        key = np.array([2.0 * place for place in _places(verdicts)])[own] - judged.p_wrong.numpy()
        asked = np.isin(own, verdicts) & ~judged.trusted.numpy()
        found.append(judged.first + asked.nonzero()[0])
        keys.append(key[asked])
    return np.concatenate(found)[np.concatenate(keys).argsort(kind="stable")]


def _places(verdicts: Sequence[int]) -> list[int]:
    """The position of each verdict by its index; verdicts that are not included get an arbitrary one."""
    return [verdicts.index(verdict) if verdict in verdicts else 0 for verdict in range(len(VERDICTS))]
