"""The order of rows in a review, by what happens to the rows that nobody reviews.

    clean     they keep the given label: rows whose given label is most likely wrong come first
    relabel   they take the suggested label: rows whose suggestion is most likely wrong come first

Both orders sort by the chance that a look finds an error, so a reviewer who stops early has found as many errors as
the probabilities allow.

A third order, ``duplicates``, shows groups of near-identical rows with different labels, the rows of a group together.

Legend: M rows of a review, C classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from pencil.results import KEEP, RELABEL, REVIEW, Judged, NearRows
from pencil.results.neighbours import TRAIN

CLEAN, RELABELLED = "clean", "relabel"
GOALS = (CLEAN, RELABELLED)
DUPLICATES = "duplicates"
ALL = (REVIEW, RELABEL, KEEP)
ASKED = {CLEAN: (REVIEW,), RELABELLED: (REVIEW, RELABEL), DUPLICATES: ALL}
"""The verdicts of the rows in a queue. Labels that are replaced anyway need no look if given labels are kept."""

WINDOW = 240  # rows are moved within windows of this size only
STRETCH, FEW = 12, 3  # in 12 rows, at most 3 of the same given and suggested class, if the window has others


@dataclass(frozen=True)
class Order:
    """Rows in the order of a review.

    Attributes:
        rows: (M,) row numbers.
        chances: (M,) the probability that a look at the row finds an error.
    """

    rows: NDArray[np.int64]
    chances: NDArray[np.float32]


def chances_of(judged: Judged, goal: str) -> NDArray[np.float32]:
    """(B,) the probability of an error: of the given label, or of the suggested one."""
    chances = 1 - judged.confidence if goal == RELABELLED else judged.p_wrong
    found: NDArray[np.float32] = chances.float().numpy()
    return found


def order_by(goal: str, chunks: Iterable[Judged], verdicts: Sequence[int]) -> Order:
    """Sort the rows with one of these verdicts by their chance of an error, highest first, then by row number.

    Rows of the same given and suggested class are spread out (see ``spread``). Trusted rows are left out, because they
    were verified before training. Needs about 50 bytes for each of the M rows.

    Args:
        goal: One of ``GOALS``.
        chunks: A run's labels, beginning with row 0.
        verdicts: The verdicts to include, as indices into ``VERDICTS``.
    """
    rows, chances, pairs = [], [], []
    for judged in chunks:
        asked = np.isin(judged.verdict.numpy(), verdicts) & ~judged.trusted.numpy()
        rows.append(judged.first + asked.nonzero()[0])
        chances.append(chances_of(judged, goal)[asked])
        pairs.append((judged.given * judged.num_classes + judged.suggested).numpy()[asked])
    chance = np.concatenate(chances)
    order = (-chance).argsort(kind="stable")
    order = order[spread(np.concatenate(pairs)[order])]
    return Order(np.concatenate(rows)[order], chance[order])


def order_of_groups(chunks: Iterable[Judged], near: NearRows) -> Order:
    """The rows of groups with different labels, group by group: those with the likeliest error first.

    Trusted rows are left out, because they were verified before training.
    """
    rows, chances, groups = [], [], []
    differing, numbers = near.has_different_labels(), near.groups[TRAIN]
    for judged in chunks:
        span = slice(judged.first, judged.first + len(judged))
        asked = (differing[span] & ~judged.trusted).numpy()
        rows.append(judged.first + asked.nonzero()[0])
        chances.append(chances_of(judged, DUPLICATES)[asked])
        groups.append(numbers[span].numpy()[asked])
    row, chance, group = map(np.concatenate, (rows, chances, groups))
    likeliest = np.zeros(len(near.differing), dtype=np.float32)
    np.maximum.at(likeliest, group, chance)
    order = np.lexsort((row, group, -likeliest[group]))
    return Order(row[order], chance[order])


def spread(pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    """A permutation (M,) that keeps rows of one pair of classes (M,) from following each other in long runs.

    In every window, a row waits until at most ``FEW`` rows of its pair stand in ``STRETCH`` rows, while rows of other
    pairs take its place. A pair that fills most of a window is spread evenly over it. No row leaves its window, so the
    order loses little.
    """
    places = np.arange(len(pairs))
    window = places // WINDOW
    number, count = _occurrences(window * (pairs.max(initial=0) + 1) + pairs)
    earliest = number // FEW * np.minimum(STRETCH, WINDOW * FEW / count)
    for start in range(0, len(pairs), WINDOW):
        some = slice(start, start + WINDOW)
        if count[some].max() > FEW:
            places[some] = start + np.array(_delayed(earliest[some].tolist()))
    return places


def _delayed(earliest: list[float]) -> list[int]:
    """Items in their order, but none before its earliest slot, as long as others can take its place."""
    later, ready, order = [(slot, item) for item, slot in enumerate(earliest)], list[int](), list[int]()
    heapify(later)
    for slot in range(len(earliest)):
        while later and (later[0][0] <= slot or not ready):
            heappush(ready, heappop(later)[1])
        order.append(heappop(ready))
    return order


def _occurrences(groups: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each item (M,), how many of its group come before it, and the size of its group."""
    _, inverse, counts = np.unique(groups, return_inverse=True, return_counts=True)
    order = inverse.argsort(kind="stable")
    before = np.empty_like(inverse)
    before[order] = np.arange(len(groups)) - np.repeat(counts.cumsum() - counts, counts)
    return before, counts[inverse]
