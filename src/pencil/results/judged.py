"""Verdicts on labels. The label table, report, review, exports and estimator all take their verdicts from here.

    keep      the given label is more likely right than wrong, or it is trusted
    relabel   another class is sure enough: the asked share of wrong replacements is respected
    review    the given label is more likely wrong than right, or another class is likelier, but no class is sure enough
    drop      a reviewer dropped the example

Probabilities are those of the distribution of true classes: the calibrated posterior of a run
(``pencil.estimates``), or a network's predictions. A reviewer's decision replaces them.

Legend: B rows, C classes. Classes are numbers; exporters and writers translate them to names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from pencil.algorithm import Rows, TopRows
from pencil.belief.answers import NO_CLASS, Released, informed, others_of
from pencil.belief.belief import FLOOR, SHARE
from pencil.belief.claims import LessDoubt
from pencil.estimates import RelabelCounts

KEEP, RELABEL, REVIEW, DROP = range(4)
VERDICTS = ("keep", "relabel", "review", "drop")
UNDECIDED, ACCEPTED, KEPT, CHANGED, DROPPED = range(5)
DECISIONS = ("", "accepted", "kept", "changed", "dropped")
Take = Literal["sure", "best"]
"""Which labels to use; see ``Judged.taken``."""
_VERDICT_OF_DECISION = torch.tensor([KEEP, RELABEL, KEEP, RELABEL, DROP])  # the first entry is unused


def verdict_of(decision: str) -> str:
    """The verdict for a decision (one of ``DECISIONS``, except the first)."""
    return VERDICTS[int(_VERDICT_OF_DECISION[DECISIONS.index(decision)])]


@dataclass(frozen=True, kw_only=True)
class VerdictRule:
    """Which labels are replaced.

    Attributes:
        max_false_relabels: The largest share of relabelled rows whose suggested class is wrong, by the estimate.
        class_floor: The share of its given labels that each class keeps, so that a rare class cannot disappear.
    """

    max_false_relabels: float = SHARE
    class_floor: float = FLOOR

    def __post_init__(self) -> None:
        for name in ("max_false_relabels", "class_floor"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise ValueError(f"{name}: {value} must be between 0 and 1")

    def thresholds(self, counts: RelabelCounts) -> Tensor:
        """The lowest confidence (C,) at which a label of each given class is replaced."""
        return counts.thresholds(self.max_false_relabels, self.class_floor)

    def less_doubt(self, doubt: float, num_classes: int) -> LessDoubt:
        """Confidences that ``doubt`` has lowered, where few errors are asked for."""
        return LessDoubt.of(doubt, self.max_false_relabels, num_classes)

    def row_threshold(self) -> float:
        """The lowest confidence if rows are judged one by one: each keeps to the asked share by itself."""
        return 1 - self.max_false_relabels


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
        distribution: (B, C) the probability that each class is the true one, whole or cut to its largest entries; 1 for
            the label of decided and trusted rows.
        given: The given class; C or more for a class that the model was not trained on, ``NO_CLASS`` for rows
            without labels.
        suggested: The most likely class.
        confidence: Its probability, that is, the probability that the suggestion is right.
        p_wrong: The probability that the given label is wrong.
        verdict: Index into ``VERDICTS``.
        trusted: bool, whether the given label was verified before training.
        decision: Index into ``DECISIONS``; None for a run without a review.
        group: The number of the group of near-identical rows, ``NO_GROUP`` for none; None if rows were not compared.
        outlier: For outliers, how many times farther from its neighbours the row is than the median row, otherwise 0;
            None if rows were not compared.
        best: The likeliest class by what the method learned, or by a decision; None if it was not asked for. Right for
            more rows than the suggestion, but how sure it is is not known.
    """

    first: int
    ids: Sequence[str]
    distribution: Rows
    given: Tensor
    suggested: Tensor
    confidence: Tensor
    p_wrong: Tensor
    verdict: Tensor
    trusted: Tensor
    decision: Tensor | None
    group: Tensor | None = None
    outlier: Tensor | None = None
    best: Tensor | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def num_classes(self) -> int:
        """C."""
        return _num_classes(self.distribution)

    @property
    def has_given(self) -> bool:
        """Whether the rows have given labels, without which verdicts are meaningless; so do no rows."""
        return not len(self) or bool((self.given != NO_CLASS).any())

    @property
    def changed(self) -> Tensor:
        """(B,) bool: the suggested class differs from the given one."""
        return self.suggested != self.given

    @property
    def is_decided(self) -> Tensor:
        """(B,) bool: the row has a review decision."""
        return torch.zeros_like(self.trusted) if self.decision is None else self.decision != UNDECIDED

    def split(self, size: int) -> Iterator[Judged]:
        """Yield the rows in parts of at most ``size``."""
        for places in torch.arange(len(self)).split(size):
            yield self.take(places)

    def take(self, places: Tensor) -> Judged:
        """The rows at some places (M,), ascending; ``first`` is the number of the first of them."""
        return Judged(
            first=self.first + (int(places[0]) if len(places) else 0),
            ids=[self.ids[place] for place in places.tolist()],
            distribution=self.distribution[places],
            given=self.given[places],
            suggested=self.suggested[places],
            confidence=self.confidence[places],
            p_wrong=self.p_wrong[places],
            verdict=self.verdict[places],
            trusted=self.trusted[places],
            decision=_some(self.decision, places),
            group=_some(self.group, places),
            outlier=_some(self.outlier, places),
            best=_some(self.best, places),
        )

    def taken(self, take: Take) -> Tensor:
        """(B,) the class to use for each row; ``NO_CLASS`` for a row that a reviewer dropped.

        Args:
            take: ``sure`` replaces the given class where the verdict says so; ``best`` is the likeliest class of all.
        """
        if take == "best":
            label = self.suggested if self.best is None else self.best
        else:
            label = torch.where(self.verdict == RELABEL, self.suggested, self.given)
        return label.masked_fill(self.verdict == DROP, NO_CLASS)


def judge(
    distribution: Rows,
    given: Tensor | None,
    least: Tensor | float,
    *,
    ids: Sequence[str],
    first: int = 0,
    trusted: Tensor | None = None,
    decided: Decided | None = None,
) -> Judged:
    """Compute suggested class, confidence, probability of a wrong label, and verdict of some rows.

    Args:
        distribution: (B, C) the probability that each class is the true one, whole or cut.
        given: (B,) the given class of each row; None for rows without labels.
        least: The lowest confidence at which a label is replaced: of each row (B,), or of all.
        ids: (B,) the id of each row.
        first: The number of the first row.
        trusted: (B,) bool, rows whose given label was verified; None if no row is trusted.
        decided: Review decisions; None for a run without a review.
    """
    known = torch.full((len(ids),), NO_CLASS) if given is None else given
    verified = torch.zeros(len(ids), dtype=torch.bool) if trusted is None else trusted
    belief = _certain_where(distribution, torch.where(verified, known, NO_CLASS))
    if decided is not None:
        belief = _certain_where(belief, decided.label)
    best, p_wrong = belief.max(dim=1), 1 - _at(belief, known)
    verdict = verdicts_of(known, best.indices, best.values, p_wrong, least)
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
        p_wrong=p_wrong,
        verdict=verdict,
        trusted=verified,
        decision=None if decided is None else decided.decision,
    )


def judge_all(
    distribution: Rows,
    given: Tensor,
    rule: VerdictRule,
    *,
    ids: Sequence[str],
    trusted: Tensor | None = None,
    surest: float = 1.0,
    doubt: float = 0.0,
) -> Judged:
    """Judge rows that are the whole data set, so that the rule's share holds for all of them together.

    For ``surest`` see ``RelabelCounts``, for ``doubt`` ``VerdictRule.less_doubt``, for other arguments ``judge``.
    """
    classes, best = _num_classes(distribution), distribution.max(dim=1)
    counts, less = RelabelCounts(classes, surest), rule.less_doubt(doubt, classes)
    candidate = best.indices != given
    counts.add(given, less.confidence(best.values), candidate if trusted is None else candidate & ~trusted)
    return judge(distribution, given, less.stated(rule.thresholds(counts))[given], ids=ids, trusted=trusted)


def verdicts_of(
    given: Tensor, suggested: Tensor, confidence: Tensor, p_wrong: Tensor, least: Tensor | float
) -> Tensor:
    """Indices into ``VERDICTS`` (B,), before trusted rows and decisions count."""
    candidate = suggested != given
    doubtful = torch.where(candidate | (p_wrong > 0.5), REVIEW, KEEP)
    return torch.where(candidate & (confidence >= least), RELABEL, doubtful)


def runners_up(distribution: Rows, besides: Tensor) -> tuple[Tensor, Tensor]:
    """The largest probability (B,) of a class besides one (B,), and the class.

    ``NO_CLASS`` if it is the rest of a cut row.
    """
    if not isinstance(distribution, TopRows):
        return others_of(distribution, besides)
    kept = distribution.values.masked_fill(distribution.classes == besides[:, None], -1.0).max(dim=1)
    classes = distribution.classes.gather(1, kept.indices[:, None])[:, 0]
    rest = distribution.rest[:, 0]
    is_kept = kept.values > rest
    return torch.where(is_kept, kept.values, rest), torch.where(is_kept, classes, NO_CLASS)


def informed_rows(distribution: Rows, given: Tensor, places: Tensor, found: Released) -> Rows:
    """The distribution (B, C) of rows with given classes (B,), with what answers say at some places (M,)."""
    given, other = given[places], found.other
    if not isinstance(distribution, TopRows):
        parts = informed(distribution[places], given, other, found.chance, found.kept)
        return distribution.index_copy(0, places, parts)
    some = distribution[places]
    whole = torch.cat([some.values.float(), some.rest.float()], 1)
    at, label = ((some.classes == classes[:, None]).long().argmax(1) for classes in (other, given))
    label = torch.where(given < 0, given, label)
    parts = informed(whole, label, at, found.chance, found.kept).to(some.values.dtype)
    return TopRows(
        distribution.classes,
        distribution.values.index_copy(0, places, parts[:, :-1]),
        distribution.rest.index_copy(0, places, parts[:, -1:]),
        distribution.num_classes,
    )


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


def _certain_where(distribution: Rows, label: Tensor) -> Rows:
    """Probability 1 for the label (B,) of each row that has one."""
    places = (label != NO_CLASS).nonzero()[:, 0]
    return certain(distribution, places, label[places])


def _at(distribution: Rows, classes: Tensor) -> Tensor:
    """The probability (B,) of one class (B,) per row; 0 for a class out of range."""
    num_classes = _num_classes(distribution)
    known = (classes >= 0) & (classes < num_classes)
    wanted = torch.where(known, classes, 0)[:, None]
    found = distribution.at(wanted) if isinstance(distribution, TopRows) else distribution.gather(1, wanted)
    return torch.where(known, found[:, 0], 0.0)


def _some(values: Tensor | None, places: Tensor) -> Tensor | None:
    return None if values is None else values[places]


def _num_classes(distribution: Rows) -> int:
    return distribution.num_classes if isinstance(distribution, TopRows) else distribution.shape[1]
