"""The belief about every label, what follows from it, and people's answers.

Legend: N rows, C classes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from pencil.belief.answers import NO_CLASS, Ranking, doubtful, informed, others_of, released
from pencil.belief.claims import Checks, LessDoubt, least_wrong
from pencil.estimates import RelabelCounts

SHARE, FLOOR = 0.1, 0.25
"""The largest share of false ones among replaced labels, and the share of its labels that each class keeps."""


@dataclass(frozen=True)
class Decided:
    """What follows for each label.

    Attributes:
        p_wrong: (N,) the probability that the given label is wrong.
        suggested: (N,) the likeliest class.
        confidence: (N,) its probability.
        replaced: (N,) bool, the suggestion is sure enough to replace the given label.
        at_least: The share of labels that is wrong at least.
    """

    p_wrong: Tensor
    suggested: Tensor
    confidence: Tensor
    replaced: Tensor
    at_least: float


@dataclass(frozen=True)
class Belief:
    """What each row's class is, by everything that is known.

    Attributes:
        given: (N,) given classes; −1 for a row without a label.
        posterior: (N, C + 1) the probability of each class, and of no class, as sure as may be stated.
        likeliest: (N,) the class that is right most often, from a mixture that is not calibrated.
        checks: Whether labels may be replaced.
        answers: What people said a row is, by its number; ``NO_CLASS`` for none.
    """

    given: Tensor
    posterior: Tensor
    likeliest: Tensor
    checks: Checks
    answers: dict[int, int] = field(default_factory=dict)

    def answered(self, answers: dict[int, int]) -> Belief:
        """The belief that knows further answers."""
        return replace(self, answers={**self.answers, **answers})

    @cached_property
    def ranking(self) -> Ranking:
        """The rows whose label may be replaced."""
        stated, other = others_of(self.posterior[:, :-1], self.given)
        rows = doubtful(stated)
        return Ranking.of(rows, other[rows], stated[rows])

    def ask(self, number: int) -> Tensor:
        """Rows whose answers release most: those that may be replaced, spread over their ranking, then other doubts."""
        known = torch.tensor(sorted(self.answers), dtype=torch.long)
        rows = self.ranking.spread(number, known)
        rest = self._wrong(self.posterior).argsort(descending=True, stable=True)
        rest = rest[~torch.isin(rest, torch.cat([rows, known]))]
        return torch.cat([rows, rest[: number - len(rows)]])

    def decided(self, share: float = SHARE) -> Decided:
        """What follows, with at most this share of false ones among the labels that are replaced."""
        passed, posterior = self.checks.passed, self.posterior
        replaced = surely(posterior, self.given, share, self.checks.doubt) & passed
        rows, said = (
            torch.tensor(list(part), dtype=torch.long) for part in (self.answers, self.answers.values())
        )
        found = released(self.ranking, self.given[rows], self.answers, share) if self.answers else None
        if found is not None:
            posterior = posterior.index_copy(
                0,
                found.rows,
                informed(
                    posterior[found.rows], self.given[found.rows], found.other, found.chance, found.kept
                ),
            )
            replaced = torch.zeros_like(replaced).index_copy(0, found.rows, found.chosen)
        confidence, suggested = posterior[:, :-1].max(1)
        wrong = self._wrong(posterior)
        wrong = wrong.index_put((rows,), (said != self.given[rows]).to(wrong.dtype))
        least = least_wrong(wrong[self.given >= 0]) if passed or found is not None else 0.0
        has = said != NO_CLASS
        return Decided(
            wrong,
            suggested.index_put((rows[has],), said[has]),
            confidence.index_fill(0, rows[has], 1.0),
            (replaced & (suggested != self.given)).index_put((rows,), has & (said != self.given[rows])),
            least,
        )

    def best(self) -> Tensor:
        """(N,) the class to use for each row: the likeliest, or what people said; the given one if the checks fail."""
        found = self.decided()
        usual = (
            self.likeliest if self.checks.passed else torch.where(self.given < 0, self.likeliest, self.given)
        )
        known = torch.zeros(len(self.given), dtype=torch.bool)
        known[list(self.answers)] = True
        return torch.where(found.replaced | known, found.suggested, usual)

    def _wrong(self, posterior: Tensor) -> Tensor:
        """(N,) the probability that the given class is wrong; 0 for a row without a label."""
        right = posterior.gather(1, self.given.clamp_min(0)[:, None])[:, 0]
        return (1 - right).masked_fill(self.given < 0, 0.0)


def surely(posterior: Tensor, given: Tensor, share: float = SHARE, doubt: float = 0.0) -> Tensor:
    """(N,) bool, rows whose suggestion is sure enough to replace the given label, by the posterior (N, C + 1)."""
    confidence, suggested = posterior[:, :-1].max(1)
    confidence = LessDoubt.of(doubt, share, posterior.shape[1] - 1).confidence(confidence)
    label = torch.where(given < 0, suggested, given)
    counts = RelabelCounts(posterior.shape[1] - 1)
    counts.add(label, confidence, suggested != label)
    return (suggested != given) & (confidence >= counts.thresholds(share, FLOOR)[label])
