"""What people's answers say about the confidence of suggestions, and which labels they release.

The rows that are asked about are those that may be changed, spread over their ranking. Whether the suggestion is right
follows a logistic curve over its confidence, its rank and what the features say, with a Gaussian prior around
"confidence as stated". The labels that are released are the longest prefix whose share of errors stays within the asked
one at an upper quantile of the curve's posterior.

| constant | value | chosen |
|---|---|---|
| ``LEAST`` | 0.2 | rows below hardly ever are released |
| ``QUANTILE`` | 0.75 | 0.9 releases 5 points less of the errors; at 0.6 one audit in sixteen is over |
| ``PRIOR`` | 1, 4, 1, 1 | weaker ones release a point more, and one audit in eight is over |

Legend: M rows in order of confidence, A answers.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pencil.belief.claims import longest

LEAST = 0.2
QUANTILE = 0.75
PRIOR = (1.0, 4.0, 1.0, 1.0)
_MEAN = (0.0, 1.0, 0.0, 0.0)
_DRAWS, _STEPS = 400, 50


def evenly(rows: Tensor, number: int) -> Tensor:
    """So many of the rows, evenly spread."""
    if len(rows) <= number:
        return rows
    return rows[(2 * torch.arange(number) + 1) * len(rows) // (2 * number)]


def evidence(confidence: Tensor, unseen: Tensor) -> Tensor:
    """What the curve depends on (M, 4), from confidences in falling order and log f of the suggestion (M,)."""
    rank = torch.linspace(-0.5, 0.5, len(confidence)).double()
    stated = confidence.double().clamp(1e-3, 1 - 1e-3).logit()
    return torch.stack([torch.ones_like(rank), stated, rank, unseen.double() - unseen.double().mean()], 1)


class Curve:
    """The chance that suggestions are right, from answers about some of them.

    Args:
        evidence: (A, 4) of the rows that were answered.
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
            evidence: (M, 4) of rows in falling order of their chance.
            share: The largest share of errors.
            replaced: Labels that answers themselves replace, which are right.
        """
        if not len(evidence):
            return 0
        wrong = (1 - (evidence @ self._draws.T).sigmoid()).cumsum(0)
        rows = torch.arange(1, len(evidence) + 1)[:, None] + replaced
        return longest((wrong / rows).quantile(QUANTILE, dim=1) <= share)
