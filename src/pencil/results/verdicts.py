"""What to do about each label: keep it, relabel, or let somebody review it.

    keep      y^d is sure of the given class
    relabel   y^d is sure of another class
    review    y^d is not sure

y^d is sure of its likeliest class where that has a probability (confidence) and a lead over the second (margin) of at
least so much.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pencil.algorithm import Rows, TopRows

KEEP, RELABEL, REVIEW = range(3)
VERDICTS = ("keep", "relabel", "review")


@dataclass(frozen=True, kw_only=True)
class VerdictRule:
    """How sure is sure.

    Attributes:
        confidence: The least probability of the likeliest class.
        margin: Its least lead over the second.
    """

    confidence: float = 0.7
    margin: float = 0.5

    def __post_init__(self) -> None:
        for name, value in (("confidence", self.confidence), ("margin", self.margin)):
            if not 0 <= value <= 1:
                raise ValueError(f"{name}: {value} must be between 0 and 1")

    def verdicts(self, distribution: Rows, given: Tensor) -> Tensor:
        """Indices into ``VERDICTS`` (B,), from y^d (B, C) and the given classes (B,)."""
        best, margin = distribution.max(dim=1), margins(distribution)
        sure = (best.values >= self.confidence) & (margin >= self.margin)
        changed = (best.indices != given).long()  # KEEP is 0, RELABEL is 1
        return torch.where(sure, changed, REVIEW)


def margins(distribution: Rows) -> Tensor:
    """The lead of the likeliest class over the second (B,)."""
    largest = _entries(distribution).topk(2, dim=1).values
    return largest[:, 0] - largest[:, 1]


def _entries(distribution: Rows) -> Tensor:
    """Entries (B, M) that hold the two largest ones; a class alone has a second of probability 0."""
    if isinstance(distribution, TopRows):
        shared = min(2, distribution.num_classes - distribution.values.shape[1])
        distribution = torch.cat([distribution.values, distribution.rest.repeat(1, shared)], dim=1)
    return distribution if distribution.shape[1] > 1 else torch.nn.functional.pad(distribution, (0, 1))
