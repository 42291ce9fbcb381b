"""Rows that show what a class looks like: those whose given label is most surely right."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from pencil.results import KEEP, Judged

COUNT = 4  # rows for each class; one of them may be the row under review


def reference_rows(chunks: Iterable[Judged], count: int = COUNT) -> dict[int, list[int]]:
    """Up to ``count`` row numbers for each class: rows to keep, lowest probability of a wrong label first.

    Args:
        chunks: A run's labels.
        count: How many rows of a class to return.
    """
    best = _Candidates.none()
    for judged in chunks:
        known = (judged.verdict == KEEP).numpy() & ~judged.changed.numpy()
        rows = judged.first + known.nonzero()[0]
        here = _Candidates(judged.given.numpy()[known], judged.p_wrong.numpy()[known], rows)
        best = best.joined(here.best(count)).best(count)
    found: dict[int, list[int]] = {}
    for label, row in zip(best.classes.tolist(), best.rows.tolist(), strict=True):
        found.setdefault(label, []).append(row)
    return found


class _Candidates:
    """Rows with their classes and probabilities of a wrong label, (M,) each."""

    def __init__(
        self, classes: NDArray[np.int64], p_wrong: NDArray[np.float32], rows: NDArray[np.int64]
    ) -> None:
        self.classes, self.p_wrong, self.rows = classes, p_wrong, rows

    @classmethod
    def none(cls) -> _Candidates:
        return cls(np.empty(0, np.int64), np.empty(0, np.float32), np.empty(0, np.int64))

    def joined(self, other: _Candidates) -> _Candidates:
        return _Candidates(
            np.concatenate([self.classes, other.classes]),
            np.concatenate([self.p_wrong, other.p_wrong]),
            np.concatenate([self.rows, other.rows]),
        )

    def best(self, count: int) -> _Candidates:
        """Of each class, the ``count`` rows with the lowest probabilities, sorted by class and probability."""
        order = np.lexsort((self.rows, self.p_wrong, self.classes))
        classes, places = self.classes[order], np.arange(len(order))
        begins = np.append(True, classes[1:] != classes[:-1])[: len(order)]
        kept = order[places - np.maximum.accumulate(np.where(begins, places, 0)) < count]
        return _Candidates(self.classes[kept], self.p_wrong[kept], self.rows[kept])
