"""What the report looks at in each label distribution: its two likeliest classes, and the verdict.

Legend: B rows, C classes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pencil.algorithm import Rows, TopRows
from pencil.results import VerdictRule

NO_CLASS = -1
"""In the place of a second class where no class stands out."""


@dataclass(frozen=True)
class Judged:
    """Some rows, as numbers; every tensor is (B,).

    Attributes:
        first: The number of the first row; the others follow it.
        given: The class that came with the row.
        suggested: The likeliest class.
        second: The likeliest class but one, or ``NO_CLASS``.
        confidence: The probability of the suggested class.
        runner_up: The probability of the second class.
        doubt: The probability that the given class is wrong.
        verdict: Index into ``VERDICTS``.
    """

    first: int
    given: Tensor
    suggested: Tensor
    second: Tensor
    confidence: Tensor
    runner_up: Tensor
    doubt: Tensor
    verdict: Tensor

    def __len__(self) -> int:
        return len(self.given)

    @property
    def changed(self) -> Tensor:
        """(B,) bool: another class than the given one is suggested."""
        return self.suggested != self.given


def judge(first: int, given: Tensor, distribution: Rows, rule: VerdictRule) -> Judged:
    """From y^d (B, C), whole or cut, and the given classes (B,)."""
    best = distribution.max(dim=1)
    runner_up, second = _second(distribution, best.indices)
    return Judged(
        first=first,
        given=given,
        suggested=best.indices,
        second=second,
        confidence=best.values,
        runner_up=runner_up,
        doubt=1 - _at(distribution, given),
        verdict=rule.verdicts(distribution, given),
    )


def _second(distribution: Rows, best: Tensor) -> tuple[Tensor, Tensor]:
    """The largest probability (B,) but that of ``best`` (B,), and its class (B,)."""
    if not isinstance(distribution, TopRows):
        others = distribution.scatter(1, best[:, None], -1.0).max(dim=1)
        return others.values, others.indices
    kept = distribution.values.masked_fill(distribution.classes == best[:, None], -1.0).max(dim=1)
    classes = distribution.classes.gather(1, kept.indices[:, None])[:, 0]
    rest = distribution.rest[:, 0]
    stands_out = kept.values > rest
    return torch.where(stands_out, kept.values, rest), torch.where(stands_out, classes, NO_CLASS)


def _at(distribution: Rows, classes: Tensor) -> Tensor:
    wanted = classes[:, None]
    found = distribution.at(wanted) if isinstance(distribution, TopRows) else distribution.gather(1, wanted)
    return found[:, 0]
