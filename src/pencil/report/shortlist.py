"""Select the rows to show: those with the highest scores, with different confusions first among equals."""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass

import torch
from torch import Tensor

from pencil.data.randomness import row_random
from pencil.results import VERDICTS, Judged
from pencil.results.judged import runners_up

SPARE = 20
"""Candidates kept for each row shown."""


@dataclass(frozen=True)
class Case:
    """One row to show.

    Attributes:
        row: The row number.
        id: The row's id in the data set.
        given: The given class.
        suggested: The most likely class.
        second: The second most likely class, or ``NO_CLASS``.
        confidence: The probability of the suggested class.
        runner_up: The probability of the second class.
        verdict: Keep, relabel or review.
    """

    row: int
    id: str
    given: int
    suggested: int
    second: int
    confidence: float
    runner_up: float
    verdict: str


class Shortlist:
    """The undecided rows of one verdict with the highest scores; keeps at most ``SPARE`` times ``size`` candidates.

    Scores are rounded to whole percent. Among equal scores, pairs of given and suggested class that have not appeared
    yet come first; remaining ties are broken by a random number that depends on the row number only.
    """

    def __init__(self, verdict: int, size: int) -> None:
        self._verdict, self._size, self._most = verdict, size, SPARE * size
        self._held: list[tuple[int, float, Case]] = []  # best first

    def add(self, judged: Judged, scores: Tensor) -> None:
        """Consider some rows, with scores (B,) between 0 and 1."""
        places = ((judged.verdict == self._verdict) & ~judged.is_decided).nonzero()[:, 0]
        levels = (scores[places] * 100).round().long()
        chances = row_random(0, 0, judged.first + places, 1)[:, 0]
        found = [
            (int(levels[place]), float(chances[place]), case_of(judged, int(places[place])))
            for place in self._worth_holding(levels, chances).tolist()
        ]
        self._held = heapq.nlargest(self._most, self._held + found, key=lambda held: held[:2])

    def _worth_holding(self, levels: Tensor, chances: Tensor) -> Tensor:
        """Positions of the best rows, if they beat the worst row kept so far."""
        order = chances.argsort(descending=True)
        order = order[levels[order].argsort(descending=True, stable=True)][: self._most]
        if len(self._held) < self._most:
            return order
        level, chance, _ = self._held[-1]
        levels, chances = levels[order], chances[order]
        return order[(levels > level) | ((levels == level) & (chances > chance))]

    def cases(self) -> list[Case]:
        """The rows to show, best first."""
        seen: Counter[tuple[int, int, int]] = Counter()
        ranked = []
        for level, chance, case in self._held:
            confusion = (level, case.given, case.suggested)
            ranked.append(((-level, seen[confusion], -chance), case))
            seen[confusion] += 1
        return [case for _, case in sorted(ranked, key=lambda pair: pair[0])[: self._size]]


def case_of(judged: Judged, place: int) -> Case:
    """The row at a place of the chunk."""
    one = torch.tensor([place])
    runner_up, second = runners_up(judged.distribution[one], judged.suggested[one])
    return Case(
        row=judged.first + place,
        id=judged.ids[place],
        given=int(judged.given[place]),
        suggested=int(judged.suggested[place]),
        second=int(second[0]),
        confidence=float(judged.confidence[place]),
        runner_up=float(runner_up[0]),
        verdict=VERDICTS[int(judged.verdict[place])],
    )


def surest(judged: Judged) -> Tensor:
    """Scores (B,) that rank the most confident rows first."""
    return judged.confidence


def least_sure(judged: Judged) -> Tensor:
    """Scores (B,) that rank rows with the least sure suggestion first."""
    return 1 - judged.confidence
