"""The few rows worth showing out of any number: the first by rank, with different confusions first among equals."""

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
"""Candidates held for each row shown."""


@dataclass(frozen=True)
class Case:
    """One row to show.

    Attributes:
        row: Its number.
        id: What identifies it to its owner.
        given: The class that came with it.
        suggested: The likeliest class.
        second: The likeliest class but one, or ``NO_CLASS``.
        confidence: The probability of the suggested class.
        runner_up: The probability of the second.
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
    """The undecided rows of one verdict with the highest scores, of which at most ``SPARE`` times ``size`` are held.

    Scores are compared to the percent: what differs by less is equally sure to anybody. Among equals those whose
    given and suggested class have not appeared yet come first, then chance decides, by the row's number alone.
    """

    def __init__(self, verdict: int, size: int) -> None:
        self._verdict, self._size, self._most = verdict, size, SPARE * size
        self._held: list[tuple[int, float, Case]] = []  # best first

    def add(self, judged: Judged, scores: Tensor) -> None:
        """Look at some rows, with scores (B,) between 0 and 1."""
        places = ((judged.verdict == self._verdict) & ~judged.is_decided).nonzero()[:, 0]
        levels = (scores[places] * 100).round().long()
        chances = row_random(0, 0, judged.first + places, 1)[:, 0]
        found = [
            (int(levels[place]), float(chances[place]), _case(judged, int(places[place])))
            for place in self._worth_holding(levels, chances).tolist()
        ]
        self._held = heapq.nlargest(self._most, self._held + found, key=lambda held: held[:2])

    def _worth_holding(self, levels: Tensor, chances: Tensor) -> Tensor:
        """Places of the best rows, of those that are better than the worst one held."""
        order = chances.argsort(descending=True)
        order = order[levels[order].argsort(descending=True, stable=True)][: self._most]
        if len(self._held) < self._most:
            return order
        level, chance, _ = self._held[-1]
        levels, chances = levels[order], chances[order]
        return order[(levels > level) | ((levels == level) & (chances > chance))]

    def cases(self) -> list[Case]:
        """The rows to show, first things first."""
        seen: Counter[tuple[int, int, int]] = Counter()
        ranked = []
        for level, chance, case in self._held:
            confusion = (level, case.given, case.suggested)
            ranked.append(((-level, seen[confusion], -chance), case))
            seen[confusion] += 1
        return [case for _, case in sorted(ranked, key=lambda pair: pair[0])[: self._size]]


def _case(judged: Judged, place: int) -> Case:
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
    """Scores (B,) that put the surest first."""
    return judged.confidence


def least_sure(judged: Judged) -> Tensor:
    """Scores (B,) that put those first whose likeliest class leads by least."""
    return torch.clamp(1 - judged.margin, 0, 1)
