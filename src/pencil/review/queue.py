"""The queue of a review: which rows are open, in which order, and for whom they are reserved.

Rows are identified by their number in the run, in every order. Decisions are therefore shared by all orders, and an
order can be built again at any time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pencil.errors import RunError
from pencil.results.decisions import FIRST, IN_FORCE
from pencil.review.database import Database
from pencil.review.orders import Order

LEASE_SECONDS = 300.0
BATCH = 1 << 16

_OTHERS = """
  SELECT 1 FROM leases WHERE leases.round = :round AND leases.row = queue.row AND client <> :client AND until > :now
"""
_SKIPS = "SELECT 1 FROM skips WHERE skips.round = :round AND skips.row = queue.row AND client = :client"
# CROSS JOIN keeps SQLite from reading the whole queue first.
_MINE = """
SELECT queue.row FROM leases CROSS JOIN queue INDEXED BY queue_by_row USING (row)
WHERE leases.round = :round AND client = :client AND until > :now AND part = :part AND decided = 0
ORDER BY place LIMIT :count
"""
_NEXT = f"""
SELECT row FROM queue INDEXED BY queue_open
WHERE part = :part AND decided = 0 AND NOT EXISTS ({_OTHERS}) AND NOT EXISTS ({_SKIPS})
ORDER BY place LIMIT :count
"""  # noqa: S608 - built from constants only
_SKIPPED = f"""
SELECT queue.row FROM skips CROSS JOIN queue INDEXED BY queue_by_row USING (row)
WHERE skips.round = :round AND client = :client AND part = :part AND decided = 0 AND NOT EXISTS ({_OTHERS})
ORDER BY skips.entry LIMIT :count
"""  # noqa: S608 - as above
_CHANCES = """
SELECT chance FROM queue INDEXED BY queue_open WHERE part = ? AND decided = 0 ORDER BY place LIMIT ?
"""
_DECIDED = f"""
UPDATE queue SET decided = 1 WHERE part = ? AND row IN (SELECT row FROM history AS made WHERE round = ? AND {IN_FORCE})
"""  # noqa: S608 - as above


@dataclass(frozen=True)
class Part:
    """Some rows of a queue in their order.

    Attributes:
        source: Identifies what the order was computed from; an order from another source is replaced.
        make: Computes the order.
    """

    source: str
    make: Callable[[], Order]


@dataclass
class Queue:
    """Assigns rows to clients. All methods that change something must be called within ``Database.writing``.

    Attributes:
        database: The database of the queue.
        clock: Returns the time in seconds, for the end of reservations.
        lease_seconds: How long a row stays reserved for its client.
        round: Decisions of a round leave the queues of other rounds unchanged.
    """

    database: Database
    clock: Callable[[], float] = time.time
    lease_seconds: float = LEASE_SECONDS
    round: str = FIRST
    _parts: list[int] = field(default_factory=list)

    def fill(self, about: Mapping[str, str], parts: Mapping[str, Part]) -> None:
        """Use these parts, by name and in this order; build those that do not exist yet.

        Args:
            about: Identifies the labels of the queue; a queue of other labels is rejected.
            parts: The parts of the queue.
        """
        for name, value in about.items():
            self.database.run("INSERT OR IGNORE INTO about VALUES (?, ?)", (name, value))
            kept = self.database.find("SELECT value FROM about WHERE name = ?", (name,))
            if kept != (value,):
                raise RunError(
                    f"{self.database.path}: belongs to other labels than this run's ({name} differs); move it away"
                )
        self._parts = [self._made(name, part) for name, part in parts.items()]

    def _made(self, name: str, part: Part) -> int:
        """The number of a part, after it was built if necessary."""
        found = self.database.find("SELECT part, source FROM parts WHERE name = ?", (name,))
        if found is not None and found[1] == part.source:
            return int(found[0])
        number = self._number("SELECT COALESCE(MAX(part), 0) + 1 FROM parts") if found is None else found[0]
        self.database.run("DELETE FROM queue WHERE part = ?", (number,))
        self._insert(number, part.make())
        self.database.run(_DECIDED, (number, self.round))
        self.database.run(
            "INSERT OR REPLACE INTO parts "
            "SELECT ?, ?, ?, ?, COUNT(*), COALESCE(SUM(decided), 0) FROM queue WHERE part = ?",
            (number, name, self.round, part.source, number),
        )
        return int(number)

    def _insert(self, part: int, order: Order) -> None:
        self.database.run("DROP INDEX IF EXISTS queue_by_row")  # much faster to build once all rows are there
        for start in range(0, len(order.rows), BATCH):
            some = slice(start, start + BATCH)
            rows = zip(order.rows[some].tolist(), order.chances[some].tolist(), strict=True)
            self.database.run_many(
                "INSERT INTO queue (part, place, row, chance) VALUES (?, ?, ?, ?)",
                ((part, place, row, chance) for place, (row, chance) in enumerate(rows, start=start)),
            )
        self.database.run("CREATE INDEX queue_by_row ON queue (row)")

    def progress(self) -> dict[str, int]:
        """The number of rows, and how many are decided."""
        found = [
            self.database.find("SELECT rows, decided FROM parts WHERE part = ?", (part,)) or (0, 0)
            for part in self._parts
        ]
        return {"total": sum(rows for rows, _ in found), "decided": sum(decided for _, decided in found)}

    def chances(self, count: int) -> list[float]:
        """The chance of an error of the next ``count`` open rows, in their order."""
        found: list[float] = []
        for part in self._parts:
            found += [chance for (chance,) in self.database.find_all(_CHANCES, (part, count - len(found)))]
        return found

    def take(self, client: str, count: int = 1) -> list[int]:
        """Reserve up to ``count`` rows for a client, and release its other reservations.

        The client's reserved rows come first, then unreserved rows, then rows that it skipped, oldest skip first.
        """
        found: dict[int, None] = {}
        for query in (_MINE, _NEXT, _SKIPPED):
            for part in self._parts:
                found |= dict.fromkeys(self._rows(query, client, part, count))
        rows = list(found)[:count]
        self.lease(rows, client)
        return rows

    def _rows(self, query: str, client: str, part: int, count: int) -> list[int]:
        values = {"round": self.round, "client": client, "now": self.clock(), "part": part, "count": count}
        return [int(row) for (row,) in self.database.find_all(query, values)]

    def lease(self, rows: Iterable[int], client: str) -> None:
        """Reserve rows for a client and release its other reservations."""
        self.database.run("DELETE FROM leases WHERE round = ? AND client = ?", (self.round, client))
        until = self.clock() + self.lease_seconds
        self.database.run_many(
            "INSERT OR REPLACE INTO leases VALUES (?, ?, ?, ?)",
            ((self.round, row, client, until) for row in rows),
        )

    def close(self, row: int) -> None:
        """Mark a row as decided."""
        self._mark(row, self.round, decided=1)
        self.database.run("DELETE FROM leases WHERE round = ? AND row = ?", (self.round, row))

    def open_again(self, row: int, round_: str) -> None:
        """Mark a row as undecided in a round."""
        self._mark(row, round_, decided=0)

    def set_aside(self, row: int, client: str, entry: int) -> None:
        """Record that the client skipped a row; it comes again after all others."""
        self.database.run(
            "DELETE FROM leases WHERE round = ? AND row = ? AND client = ?", (self.round, row, client)
        )
        self.database.run(
            "INSERT OR REPLACE INTO skips VALUES (?, ?, ?, ?)", (self.round, client, row, entry)
        )

    def take_back(self, rows: Sequence[int], client: str) -> None:
        """Reserve rows for a client, even if the client skipped them."""
        self.database.run_many(
            "DELETE FROM skips WHERE round = ? AND client = ? AND row = ?",
            ((self.round, client, row) for row in rows),
        )
        self.lease(rows, client)

    def _mark(self, row: int, round_: str, *, decided: int) -> None:
        self.database.run(
            "UPDATE queue SET decided = ? WHERE row = ? AND part IN (SELECT part FROM parts WHERE round = ?)",
            (decided, row, round_),
        )
        self.database.run(
            "UPDATE parts SET decided = decided + ? WHERE round = ? AND part IN (SELECT part FROM queue WHERE row = ?)",
            (1 if decided else -1, round_, row),
        )

    def _number(self, query: str) -> int:
        found = self.database.find(query)
        return 0 if found is None else int(found[0])
