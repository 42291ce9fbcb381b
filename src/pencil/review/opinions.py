"""Second opinions: how far two rounds of decisions on the same rows agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pencil.results.decisions import FIRST, IN_FORCE
from pencil.review.database import Database
from pencil.review.orders import Order

SECOND = "second"
"""The round of second opinions."""

_BOTH = f"""
SELECT made.entry, made.label, second.entry, second.label FROM history AS made JOIN (
  SELECT entry, row, label FROM history AS made WHERE round = '{SECOND}' AND {IN_FORCE}
) AS second USING (row) WHERE made.round = '{FIRST}' AND {IN_FORCE} ORDER BY second.entry
"""  # noqa: S608 - built from constants only


@dataclass(frozen=True)
class Agreement:
    """How far two opinions on the same rows agree.

    Attributes:
        both: The number of rows with two opinions.
        agree: How many of them have the same label in both, or were dropped in both.
        kappa: Cohen's kappa: the share of agreement beyond what the two frequencies of labels give by chance, as a part
            of the highest possible. None if it is not defined, because chance alone gives full agreement.
        differ: The entries of first and second decision, where they differ.
    """

    both: int
    agree: int
    kappa: float | None
    differ: tuple[tuple[int, int], ...]

    @property
    def share(self) -> float | None:
        """The share of rows with the same decision; None without rows."""
        return self.agree / self.both if self.both else None


def agreement_of(database: Database) -> Agreement:
    """Compare the second opinions in force with the first ones."""
    found = database.find_all(_BOTH)
    pairs = [(first, second) for _, first, _, second in found]
    differ = tuple((entry, other) for entry, first, other, second in found if first != second)
    return Agreement(len(pairs), len(pairs) - len(differ), kappa(pairs), differ)


def kappa(pairs: Sequence[tuple[int | None, int | None]]) -> float | None:
    """Cohen's kappa (p - e) / (1 - e): p is the share of equal pairs, e the share by chance, Σ p₁(c) p₂(c)."""
    count = len(pairs)
    if not count:
        return None
    first, second = Counter(one for one, _ in pairs), Counter(other for _, other in pairs)
    chance = sum(first[label] * second[label] for label in first) / count**2
    equal = sum(one == other for one, other in pairs) / count
    return None if chance == 1 else (equal - chance) / (1 - chance)


def decided_rows(database: Database) -> Order:
    """The rows decided in the first round, shuffled, so that their order reveals nothing about the decisions."""
    query = f"SELECT row FROM history AS made WHERE round = '{FIRST}' AND {IN_FORCE} ORDER BY row"  # noqa: S608 - as above
    rows = np.array([row for (row,) in database.find_all(query)], dtype=np.int64)
    shuffled = np.random.default_rng(0).permutation(rows)
    return Order(shuffled, np.zeros(len(rows), dtype=np.float32))
