"""What people's answers say about the confidence of suggestions, and which labels they release.

The rows that are asked about are those whose label may be replaced, spread over their ranking. Whether the suggestion
is right follows a logistic curve over its stated confidence and its rank, with a Gaussian prior around "as stated". The
labels that are released are the longest prefix whose share of errors stays within the asked one at an upper quantile of
the curve's posterior.

| constant | value | chosen |
|---|---|---|
| ``LEAST`` | 0.2 | rows below hardly ever are released |
| ``QUANTILE`` | 0.75 | 0.9 releases 5 points less of the errors; at 0.6 one audit in sixteen is over |
| ``PRIOR`` | 2, 8, 2 | half of it releases half a point more, and one audit in twelve is over |
| ``FEWEST`` | 30 | fewer answers say nothing about other rows; the prior would decide |
| ``DOUBTFUL`` | 1/4 | of the rows, where hardly any is above ``LEAST``: noise that features could explain may be rife |

Legend: N rows, B rows at a time, M rows of a ranking, A answers, C classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from pencil.belief.claims import longest

NO_CLASS = -1
LEAST, DOUBTFUL = 0.2, 0.25
QUANTILE = 0.75
PRIOR = (2.0, 8.0, 2.0)
FEWEST = 30
_MEAN = (0.0, 1.0, 0.0)
PREFIXES = 2000
"""Lengths of a prefix that are tried."""
_DRAWS, _STEPS = 400, 50


class Ranking(NamedTuple):
    """Rows whose label may be replaced, the surest first.

    Attributes:
        rows: (M,) their numbers.
        other: (M,) the likeliest class besides the given one.
        stated: (M,) its probability.
        raised: Hardly any row was likely, so these are the likeliest, and their probabilities are raised.
    """

    rows: Tensor
    other: Tensor
    stated: Tensor
    raised: bool = False

    @classmethod
    def of(cls, rows: Tensor, other: Tensor, stated: Tensor) -> Ranking:
        """Those of some ``doubtful`` rows that are likely enough; if hardly any is, all, with raised probabilities."""
        likely = stated > LEAST
        raised = int(likely.sum()) < FEWEST
        if raised:
            likely, stated = stated > 0, _raised(stated)
        some = likely.nonzero()[:, 0]
        order = some[stated[some].argsort(descending=True, stable=True)]
        return cls(rows[order], other[order], stated[order], raised)

    def spread(self, number: int, known: Tensor) -> Tensor:
        """So many of the rows that are not known (A,), evenly spread."""
        rows = self.rows[~torch.isin(self.rows, known)]
        if len(rows) <= number:
            return rows
        return rows[(2 * torch.arange(number) + 1) * len(rows) // (2 * number)]

    @property
    def question(self) -> str:
        """What answers tell; empty if there are too few rows to ask about."""
        if len(self.rows) < FEWEST:
            return ""
        if self.raised:
            return "whether any labels can be replaced"
        return f"which of {len(self.rows):,} doubtful labels can be replaced"


def doubtful(stated: Tensor) -> Tensor:
    """The places of rows that a ranking may need, by the probability (B,) of the likeliest other class."""
    enough = max(int((stated > LEAST).sum()), round(DOUBTFUL * len(stated)))
    return stated.topk(enough).indices.sort().values


def _raised(stated: Tensor) -> Tensor:
    """Probabilities (M,) whose odds are raised by one factor, so that the least of them is ``LEAST``; 0 stays 0."""
    if not bool((stated > 0).any()):
        return stated
    odds = stated.double().clamp(1e-30, 1 - 1e-12).logit()
    least = odds[stated > 0].min()
    return (odds - least + torch.tensor(LEAST).logit()).sigmoid().masked_fill(stated <= 0, 0.0).to(stated)


class Released(NamedTuple):
    """What answers say about the rows of a ranking; see ``released``.

    Attributes:
        rows: (M,) their numbers, ascending.
        other: (M,) the likeliest class besides the given one.
        chance: (M,) its probability by the answers.
        chosen: (M,) bool, it may replace the given one.
        kept: How often the given class is right where the other one is not.
    """

    rows: Tensor
    other: Tensor
    chance: Tensor
    chosen: Tensor
    kept: float

    def within(self, first: int, count: int) -> tuple[Tensor, Released]:
        """Places (M,) among consecutive rows, and what is said about them."""
        ends = torch.searchsorted(self.rows, torch.tensor([first, first + count]))
        some = slice(int(ends[0]), int(ends[1]))
        parts = (self.rows[some], self.other[some], self.chance[some], self.chosen[some])
        return self.rows[some] - first, Released(*parts, self.kept)


def released(ranking: Ranking, given: Tensor, answers: Mapping[int, int], share: float) -> Released | None:
    """What answers say about the other rows of a ranking; None if fewer than ``FEWEST`` are about it.

    Args:
        ranking: The rows whose label may be replaced.
        given: (A,) the given classes of the answered rows, in the order of ``answers``.
        answers: What rows are, by number; ``NO_CLASS`` for a row of no class.
        share: The largest share of errors among the labels that are replaced.
    """
    known, said = torch.tensor(list(answers)), torch.tensor(list(answers.values()))
    replaced = int(((said != NO_CLASS) & (said != given)).sum())
    at = torch.isin(ranking.rows, known).nonzero()[:, 0]
    if len(at) < FEWEST:
        return None
    x = evidence(ranking.stated)
    truth = torch.tensor([answers[int(row)] for row in ranking.rows[at]])
    of = dict(zip(answers, given.tolist(), strict=True))
    labels = torch.tensor([of[int(row)] for row in ranking.rows[at]])
    curve = Curve(x[at], truth == ranking.other[at])
    chance = curve.chance(x)
    fresh = torch.ones(len(x), dtype=torch.bool).index_fill(0, at, False).nonzero()[:, 0]
    order = fresh[chance[fresh].argsort(descending=True, stable=True)]
    chosen = torch.zeros(len(x), dtype=torch.bool)
    chosen[order[: curve.released(x[order], share, replaced)]] = True
    by_row, rows, other = ranking.rows.argsort(), ranking.rows, ranking.other
    kept = (int((truth == labels).sum()) + 1) / (int((truth != ranking.other[at]).sum()) + 2)
    return Released(rows[by_row], other[by_row], chance.float()[by_row], chosen[by_row], kept)


def others_of(posterior: Tensor, given: Tensor) -> tuple[Tensor, Tensor]:
    """The largest probability (B,) of a class besides the given one (B,), −1 for none given; and the class."""
    has = (given >= 0).nonzero()[:, 0]
    best = posterior.index_put((has, given[has]), posterior.new_tensor(-1.0)).max(1)
    return best.values, best.indices


def informed(posterior: Tensor, given: Tensor, other: Tensor, chance: Tensor, kept: float) -> Tensor:
    """The posterior (B, C) with another chance (B,) of one class (B,).

    Of what is left, the given class (B,) has a share ``kept``, and the others have the rest in their proportions.
    """
    has, at, label = (given >= 0)[:, None], other[:, None], given.clamp_min(0)[:, None]
    stated, right = posterior.gather(1, at), posterior.gather(1, label)
    left, others = 1 - chance[:, None].to(posterior.dtype), 1 - stated - torch.where(has, right, 0.0)
    mine = torch.where(has, torch.where(others > 1e-6, kept, 1.0), 0.0)
    found = posterior * ((1 - mine) * left / others.clamp_min(1e-6))
    found = torch.where(has, found.scatter(1, label, mine * left), found)
    return found.scatter(1, at, 1 - left)


def evidence(confidence: Tensor) -> Tensor:
    """What the curve depends on (M, 3), from confidences (M,) in falling order."""
    rank = torch.linspace(-0.5, 0.5, len(confidence)).double()
    stated = confidence.double().clamp(1e-3, 1 - 1e-3).logit()
    return torch.stack([torch.ones_like(rank), stated, rank], 1)


class Curve:
    """The chance that suggestions are right, from answers about some of them.

    Args:
        evidence: (A, 3) of the rows that were answered.
        right: (A,) whether the suggestion was right.
    """

    def __init__(self, evidence: Tensor, right: Tensor) -> None:
        mean, precision = torch.tensor(_MEAN).double(), torch.tensor(PRIOR).double()
        self._best = mean.clone()
        for _ in range(_STEPS):
            chance = (evidence @ self._best).sigmoid()
            slope = evidence.T @ (chance - right.double()) + precision * (self._best - mean)
            curvature = evidence.T @ (evidence * (chance * (1 - chance))[:, None]) + precision.diag()
            step = torch.linalg.solve(curvature, slope)
            self._best = self._best - step * min(1.0, 2 / float(step.abs().max().clamp_min(1e-9)))
        noise = torch.randn(
            _DRAWS, len(mean), generator=torch.Generator().manual_seed(0), dtype=torch.float64
        )
        self._draws = self._best + noise @ torch.linalg.cholesky(torch.linalg.inv(curvature)).T

    def chance(self, evidence: Tensor) -> Tensor:
        """The likeliest chance (M,) that the suggestion is right."""
        return (evidence @ self._best).sigmoid()

    def released(self, evidence: Tensor, share: float, replaced: int) -> int:
        """How many of the rows, in order, may be replaced within a share of errors.

        Args:
            evidence: (M, 3) of rows in falling order of their chance.
            share: The largest share of errors.
            replaced: Labels that answers themselves replace, which are right.
        """
        if not len(evidence):
            return 0
        size = -(-len(evidence) // PREFIXES)
        parts = [(1 - (part @ self._draws.T).sigmoid()).sum(0) for part in evidence.split(size)]
        wrong = torch.stack(parts).cumsum(0)
        rows = (torch.arange(1, len(parts) + 1) * size).clamp_max(len(evidence))
        holds = (wrong / (rows + replaced)[:, None]).quantile(QUANTILE, dim=1) <= share
        return min(longest(holds) * size, len(evidence))
