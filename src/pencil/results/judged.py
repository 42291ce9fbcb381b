"""Verdicts on labels. The label table, report, review, exports and estimator all take their verdicts from here.

    keep      y^d is sure of the given class, or the label is trusted
    relabel   y^d is sure of another class
    review    y^d is not sure
    drop      a reviewer dropped the example

y^d is sure of its most likely class if the class reaches the rule's confidence (its probability) and margin (its lead
over the second class). A reviewer's decision replaces the learned label.

Legend: B rows, C classes. Classes are numbers; exporters and writers translate them to names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pencil.algorithm import Rows, TopRows

KEEP, RELABEL, REVIEW, DROP = range(4)
VERDICTS = ("keep", "relabel", "review", "drop")
UNDECIDED, ACCEPTED, KEPT, CHANGED, DROPPED = range(5)
DECISIONS = ("", "accepted", "kept", "changed", "dropped")
NO_CLASS = -1
"""The class number of rows without a class."""
_VERDICT_OF_DECISION = torch.tensor([KEEP, RELABEL, KEEP, RELABEL, DROP])  # the first entry is unused


def verdict_of(decision: str) -> str:
    """The verdict for a decision (one of ``DECISIONS``, except the first)."""
    return VERDICTS[int(_VERDICT_OF_DECISION[DECISIONS.index(decision)])]


@dataclass(frozen=True, kw_only=True)
class VerdictRule:
    """When y^d counts as sure.

    Attributes:
        confidence: Minimum probability of the most likely class.
        margin: Minimum lead of that class over the second.
    """

    confidence: float = 0.7
    margin: float = 0.5

    def __post_init__(self) -> None:
        for name, value in (("confidence", self.confidence), ("margin", self.margin)):
            if not 0 <= value <= 1:
                raise ValueError(f"{name}: {value} must be between 0 and 1")

    def verdicts(self, given: Tensor, suggested: Tensor, confidence: Tensor, margin: Tensor) -> Tensor:
        """Indices into ``VERDICTS`` (B,), all arguments (B,)."""
        sure = (confidence >= self.confidence) & (margin >= self.margin)
        changed = (suggested != given).long()  # KEEP is 0, RELABEL is 1
        return torch.where(sure, changed, REVIEW)


@dataclass(frozen=True)
class Decided:
    """Review decisions for some rows.

    Attributes:
        decision: (B,) index into ``DECISIONS``.
        label: (B,) the chosen class; ``NO_CLASS`` for undecided and dropped rows.
    """

    decision: Tensor
    label: Tensor


@dataclass(frozen=True, kw_only=True)
class Judged:
    """Consecutive rows of a run with their verdicts. Every tensor except the distribution has shape (B,).

    Attributes:
        first: The number of the first row.
        ids: The ids of the rows in the data set.
        distribution: (B, C) y^d, whole or cut to its largest entries; decided rows have probability 1 for their label.
        given: The given class; C or more for a class that the model was not trained on, ``NO_CLASS`` for rows
            without labels.
        suggested: The most likely class.
        confidence: Its probability.
        margin: Its lead over the second class.
        verdict: Index into ``VERDICTS``.
        trusted: bool, whether the given label was verified before training.
        decision: Index into ``DECISIONS``; None for a run without a review.
    """

    first: int
    ids: Sequence[str]
    distribution: Rows
    given: Tensor
    suggested: Tensor
    confidence: Tensor
    margin: Tensor
    verdict: Tensor
    trusted: Tensor
    decision: Tensor | None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def num_classes(self) -> int:
        """C."""
        whole = self.distribution
        return whole.num_classes if isinstance(whole, TopRows) else whole.shape[1]

    @property
    def has_given(self) -> bool:
        """Whether the rows have given labels, without which verdicts are meaningless."""
        return bool((self.given != NO_CLASS).any())

    @property
    def changed(self) -> Tensor:
        """(B,) bool: the suggested class differs from the given one."""
        return self.suggested != self.given

    @property
    def is_decided(self) -> Tensor:
        """(B,) bool: the row has a review decision."""
        return torch.zeros_like(self.trusted) if self.decision is None else self.decision != UNDECIDED

    def doubt(self) -> Tensor:
        """(B,) the probability that the given class is wrong."""
        return 1 - _at(self.distribution, self.given)

    def split(self, size: int) -> Iterator[Judged]:
        """Yield the rows in parts of at most ``size``."""
        for places in torch.arange(len(self)).split(size):
            start = int(places[0])
            yield Judged(
                first=self.first + start,
                ids=self.ids[start : start + len(places)],
                distribution=self.distribution[places],
                given=self.given[places],
                suggested=self.suggested[places],
                confidence=self.confidence[places],
                margin=self.margin[places],
                verdict=self.verdict[places],
                trusted=self.trusted[places],
                decision=None if self.decision is None else self.decision[places],
            )


def judge(
    distribution: Rows,
    given: Tensor | None,
    rule: VerdictRule,
    *,
    ids: Sequence[str],
    first: int = 0,
    trusted: Tensor | None = None,
    decided: Decided | None = None,
) -> Judged:
    """Compute suggested class, confidence, margin and verdict of some rows.

    Args:
        distribution: (B, C) the learned y^d, whole or cut.
        given: (B,) the given class of each row; None for rows without labels.
        rule: When y^d counts as sure.
        ids: (B,) the id of each row.
        first: The number of the first row.
        trusted: (B,) bool, rows whose given label was verified; None if no row is trusted.
        decided: Review decisions; None for a run without a review.
    """
    belief = distribution if decided is None else _certain_where_decided(distribution, decided.label)
    best, margin = belief.max(dim=1), margins(belief)
    known = torch.full((len(ids),), NO_CLASS) if given is None else given
    verdict = rule.verdicts(known, best.indices, best.values, margin)
    verified = torch.zeros(len(ids), dtype=torch.bool) if trusted is None else trusted
    verdict = torch.where(verified, KEEP, verdict)
    if decided is not None:
        choice = _VERDICT_OF_DECISION[decided.decision]
        verdict = torch.where(decided.decision == UNDECIDED, verdict, choice)
    return Judged(
        first=first,
        ids=ids,
        distribution=belief,
        given=known,
        suggested=best.indices,
        confidence=best.values,
        margin=margin,
        verdict=verdict,
        trusted=verified,
        decision=None if decided is None else decided.decision,
    )


def margins(distribution: Rows) -> Tensor:
    """The lead of the most likely class over the second (B,)."""
    largest = _entries(distribution).topk(2, dim=1).values
    return largest[:, 0] - largest[:, 1]


def runners_up(distribution: Rows, suggested: Tensor) -> tuple[Tensor, Tensor]:
    """Return the second-largest probability (B,) and its class; ``NO_CLASS`` if it is the rest of a cut row."""
    if not isinstance(distribution, TopRows):
        others = distribution.scatter(1, suggested[:, None], -1.0).max(dim=1)
        return others.values, others.indices
    kept = distribution.values.masked_fill(distribution.classes == suggested[:, None], -1.0).max(dim=1)
    classes = distribution.classes.gather(1, kept.indices[:, None])[:, 0]
    rest = distribution.rest[:, 0]
    is_kept = kept.values > rest
    return torch.where(is_kept, kept.values, rest), torch.where(is_kept, classes, NO_CLASS)


def certain(distribution: Rows, places: Tensor, labels: Tensor) -> Rows:
    """Return the distribution (B, C) with probability 1 for ``labels`` (M,) at ``places`` (M,)."""
    if isinstance(distribution, TopRows):
        k = distribution.classes.shape[1]
        classes = (labels[:, None] + torch.arange(k)) % distribution.num_classes
        sure = torch.zeros(len(labels), k)
        sure[:, :1] = 1.0
        return TopRows(
            distribution.classes.index_copy(0, places, classes.to(distribution.classes.dtype)),
            distribution.values.index_copy(0, places, sure.to(distribution.values.dtype)),
            distribution.rest.index_fill(0, places, 0.0),
            distribution.num_classes,
        )
    sure = torch.nn.functional.one_hot(labels, distribution.shape[1]).to(distribution.dtype)
    return distribution.index_copy(0, places, sure)


def _certain_where_decided(distribution: Rows, label: Tensor) -> Rows:
    places = (label != NO_CLASS).nonzero()[:, 0]
    return certain(distribution, places, label[places])


def _entries(distribution: Rows) -> Tensor:
    """Entries (B, M) that include the two largest; a single class is padded with probability 0."""
    if isinstance(distribution, TopRows):
        shared = min(2, distribution.num_classes - distribution.values.shape[1])
        distribution = torch.cat([distribution.values, distribution.rest.repeat(1, shared)], dim=1)
    return distribution if distribution.shape[1] > 1 else torch.nn.functional.pad(distribution, (0, 1))


def _at(distribution: Rows, classes: Tensor) -> Tensor:
    """The probability (B,) of one class (B,) per row; 0 for a class out of range."""
    num_classes = distribution.num_classes if isinstance(distribution, TopRows) else distribution.shape[1]
    known = (classes >= 0) & (classes < num_classes)
    wanted = torch.where(known, classes, 0)[:, None]
    found = distribution.at(wanted) if isinstance(distribution, TopRows) else distribution.gather(1, wanted)
    return torch.where(known, found[:, 0], 0.0)
