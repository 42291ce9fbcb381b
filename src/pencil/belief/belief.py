"""The belief about every label, what follows from it, and people's answers.

Legend: N rows, M rows of a ranking, C classes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from pencil.belief.answers import LEAST, Curve, evenly, evidence
from pencil.belief.claims import Checks, least_wrong
from pencil.estimates import RelabelCounts
from pencil.estimates.noise import less_sure

SHARE, FLOOR = 0.1, 0.25
"""The largest share of false ones among replaced labels, and the share of its labels that each class keeps."""
NO_CLASS = -1
_LEAST_LOG = -8.0


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
        posterior: (N, C + 1) the probability of each class, and of no class.
        log_f: (N, C) what the features say, without the row's label.
        likeliest: (N,) the class that is right most often, from a mixture that is not calibrated.
        checks: Whether labels may be replaced.
        doubt: By how much suggestions are less sure than the model says.
        answers: What people said a row is, by its number; ``NO_CLASS`` for none.
    """

    given: Tensor
    posterior: Tensor
    log_f: Tensor
    likeliest: Tensor
    checks: Checks
    doubt: float = 0.0
    answers: dict[int, int] = field(default_factory=dict)

    def answered(self, answers: dict[int, int]) -> Belief:
        """The belief that knows further answers."""
        return replace(self, answers={**self.answers, **answers})

    @property
    def stated(self) -> Tensor:
        """(N, C + 1) the posterior, with suggestions less sure; whether the given label is wrong stays as it is."""
        has, none = self.given >= 0, self.posterior[:, -1:]
        classes = self.posterior[:, :-1] / (1 - none).clamp_min(1e-9)
        less = less_sure(classes, self.given.clamp_min(0), 1 - self.doubt)
        return torch.cat([torch.where(has[:, None], less, classes) * (1 - none), none], 1)

    def ranking(self) -> Tensor:
        """The rows whose label may be replaced, the surest first."""
        chance = self._others().amax(1)
        rows = (chance > LEAST).nonzero()[:, 0]
        return rows[chance[rows].argsort(descending=True, stable=True)]

    def ask(self, number: int) -> Tensor:
        """Rows whose answers release most: those that may be replaced, spread over their ranking, then other doubts."""
        known = torch.tensor(sorted(self.answers), dtype=torch.long)
        rows = self.ranking()
        rows = evenly(rows[~torch.isin(rows, known)], number)
        rest = (1 - self._right()).argsort(descending=True, stable=True)
        rest = rest[~torch.isin(rest, torch.cat([rows, known]))]
        return torch.cat([rows, rest[: number - len(rows)]])

    def decided(self, share: float = SHARE) -> Decided:
        """What follows, with at most this share of false ones among the labels that are replaced."""
        found = self._by_tests(share)
        ranking = self.ranking()
        at = torch.tensor([place for place, row in enumerate(ranking.tolist()) if row in self.answers])
        found = self._by_answers(found, ranking, at, share) if len(at) else found
        return self._with_own_answers(found)

    def best(self) -> Tensor:
        """(N,) the class to use for each row: the likeliest, or what people said; the given one if the checks fail."""
        found = self.decided()
        usual = (
            self.likeliest if self.checks.passed else torch.where(self.given < 0, self.likeliest, self.given)
        )
        known = torch.zeros(len(self.given), dtype=torch.bool)
        known[list(self.answers)] = True
        return torch.where(found.replaced | known, found.suggested, usual)

    def _others(self) -> Tensor:
        """(N, C) the probabilities of the classes besides the given one."""
        classes, has = self.posterior[:, :-1].clone(), self.given >= 0
        classes[has, self.given[has]] = -1.0
        return classes

    def _right(self) -> Tensor:
        """(N,) the probability of the given class; 1 for a row without a label."""
        right = self.posterior.gather(1, self.given.clamp_min(0)[:, None])[:, 0]
        return right.masked_fill(self.given < 0, 1.0)

    def _by_tests(self, share: float) -> Decided:
        """What the checks allow without answers."""
        wrong, passed = 1 - self._right(), self.checks.passed
        stated, nothing = self.stated, torch.zeros(len(wrong), dtype=torch.bool)
        confidence, suggested = stated[:, :-1].max(1)
        replaced = surely(stated, self.given, share) if passed else nothing
        return Decided(wrong, suggested, confidence, replaced, least_wrong(wrong) if passed else 0.0)

    def _by_answers(self, found: Decided, ranking: Tensor, at: Tensor, share: float) -> Decided:
        """What answers at some places of the ranking (M,) say about the others, and release."""
        stated, other = (each[ranking] for each in self._others().max(1))
        x = evidence(stated, self.log_f[ranking, other].clamp_min(_LEAST_LOG))
        answers = torch.tensor([self.answers[int(ranking[place])] for place in at])
        curve = Curve(x[at], answers == other[at])
        chance = curve.chance(x).float()
        fresh = torch.ones(len(ranking), dtype=torch.bool)
        fresh[at] = False
        order = fresh.nonzero()[:, 0]
        order = order[chance[order].argsort(descending=True, stable=True)]
        replaced_by_people = sum(
            label not in (NO_CLASS, int(self.given[row])) for row, label in self.answers.items()
        )
        chosen = order[: curve.released(x[order], share, replaced_by_people)]
        right = self._right()[ranking] / (1 - stated).clamp_min(1e-6) * (1 - chance)
        right = torch.where(self.given[ranking] < 0, 1.0, right)
        return Decided(
            found.p_wrong.index_put((ranking,), (1 - right).clamp(0, 1)),
            found.suggested.index_put((ranking[chosen],), other[chosen]),
            found.confidence.index_put((ranking[chosen],), chance[chosen]),
            torch.zeros_like(found.replaced).index_fill(0, ranking[chosen], True),
            min(found.at_least, least_wrong((1 - right).clamp(0, 1)) * len(ranking) / len(found.p_wrong)),
        )

    def _with_own_answers(self, found: Decided) -> Decided:
        """With the rows that people answered as they said."""
        if not self.answers:
            return found
        rows, said = (torch.tensor(list(each)) for each in (self.answers.keys(), self.answers.values()))
        wrong, has = said != self.given[rows], said != NO_CLASS
        return Decided(
            found.p_wrong.index_put((rows,), wrong.to(found.p_wrong.dtype)),
            found.suggested.index_put((rows[has],), said[has]),
            found.confidence.index_fill(0, rows[has], 1.0),
            found.replaced.index_put((rows,), wrong & has),
            found.at_least,
        )


def surely(posterior: Tensor, given: Tensor, share: float = SHARE) -> Tensor:
    """(N,) bool, rows whose suggestion is sure enough to replace the given label, by the posterior (N, C + 1)."""
    confidence, suggested = posterior[:, :-1].max(1)
    label = torch.where(given < 0, suggested, given)
    counts = RelabelCounts(posterior.shape[1] - 1)
    counts.add(label, confidence, suggested != label)
    return (suggested != given) & (confidence >= counts.thresholds(share, FLOOR)[label])
