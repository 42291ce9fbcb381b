"""Which rows to review, and in which order: the most doubtful first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from pencil.results import KEEP, RELABEL, REVIEW, VERDICTS, Judged
from pencil.review.queue import DOUBTFUL, SURE

VERDICTS_OF_PART: Mapping[str, tuple[int, ...]] = {DOUBTFUL: (REVIEW, RELABEL), SURE: (KEEP,)}
"""Which rows each part of the queue holds, in this order."""


def rows_by_doubt(chunks: Iterable[Judged], verdicts: Sequence[int]) -> NDArray[np.int64]:
    """Row numbers (M,) of the rows with one of these verdicts, most doubtful first.

    By verdict in the order given, then by the lead of the likeliest class, smallest first, then by number. Trusted rows
    are left out: they were verified before training. Takes 16 bytes for each of the M rows.

    Args:
        chunks: A run's labels from row 0 on.
        verdicts: Which, as indices into ``VERDICTS``.
    """
    found: list[NDArray[np.int64]] = []
    keys: list[NDArray[np.float64]] = []
    for judged in chunks:
        own = judged.verdict.numpy()
        # A margin is at most 1, so that verdicts do not mingle.
        key = np.array([2.0 * place for place in _places(verdicts)])[own] + judged.margin.numpy()
        asked = np.isin(own, verdicts) & ~judged.trusted.numpy()
        found.append(judged.first + asked.nonzero()[0])
        keys.append(key[asked])
    return np.concatenate(found)[np.concatenate(keys).argsort(kind="stable")]


def _places(verdicts: Sequence[int]) -> list[int]:
    """Where each verdict comes, by its index; those not asked for are left out anyway."""
    return [verdicts.index(verdict) if verdict in verdicts else 0 for verdict in range(len(VERDICTS))]
