"""Which rows to review, and in which order: the most doubtful first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from pencil.results import KEEP, RELABEL, REVIEW, LabelChunk, VerdictRule, margins

DOUBTFUL = (REVIEW, RELABEL)
SURE = (KEEP,)


def rows_by_doubt(
    chunks: Iterable[LabelChunk],
    class_names: Sequence[str],
    verdicts: Sequence[int],
    rule: VerdictRule | None = None,
) -> NDArray[np.int64]:
    """Row numbers (M,) of the rows with one of these verdicts, most doubtful first.

    By verdict in the order given, then by the lead of the likeliest class, smallest first, then by number. Trusted rows
    are left out: somebody made sure of them already. Takes 16 bytes for each of the M rows.

    Args:
        chunks: A run's labels from row 0 on.
        class_names: (C,) names.
        verdicts: Which, as indices into ``VERDICTS``.
        rule: How sure is sure.
    """
    found: list[NDArray[np.int64]] = []
    keys: list[NDArray[np.float64]] = []
    first = 0
    for chunk in chunks:
        own = chunk.verdicts(class_names, rule).numpy()
        # A margin is at most 1, so that verdicts do not mingle.
        key = (
            np.array([2.0 * place for place in _places(verdicts)])[own] + margins(chunk.distribution).numpy()
        )
        asked = np.isin(own, verdicts)
        if chunk.trusted is not None:
            asked &= ~chunk.trusted.numpy()
        found.append(first + asked.nonzero()[0])
        keys.append(key[asked])
        first += len(chunk.ids)
    return np.concatenate(found)[np.concatenate(keys).argsort(kind="stable")]


def _places(verdicts: Sequence[int]) -> list[int]:
    """Where each verdict comes, by its index; those not asked for are left out anyway."""
    return [verdicts.index(verdict) if verdict in verdicts else 0 for verdict in (KEEP, RELABEL, REVIEW)]
