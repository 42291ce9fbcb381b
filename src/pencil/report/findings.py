"""Statistics over the labels of a run, and the rows to show, computed in one pass.

Memory grows with the number of classes, not with the number of rows. Legend: B rows, C classes, P pairs of classes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from pencil.report.shortlist import Case, Shortlist, least_sure, surest
from pencil.results import DROP, RELABEL, REVIEW, VERDICTS, Judged

BINS = 20
MOST_CLASSES = 20
"""Number of classes shown in the transition matrix."""
MOST_PAIRS = 1 << 21
"""Maximum number of class pairs counted (32 MB); beyond it, the rarest are dropped."""


class PairCounts:
    """Number of rows by given and suggested class, for pairs of different classes."""

    def __init__(self, num_classes: int, most: int = MOST_PAIRS) -> None:
        self._num_classes, self._most = num_classes, most
        self._keys = torch.empty(0, dtype=torch.long)
        self._counts = torch.empty(0, dtype=torch.long)
        self.is_complete = True

    def add(self, given: Tensor, suggested: Tensor) -> None:
        """Count rows (B,) whose two classes differ."""
        keys, counts = (given * self._num_classes + suggested).unique(return_counts=True)
        both = torch.cat([self._keys, keys])
        self._keys, places = both.unique(return_inverse=True)
        summed = torch.zeros(len(self._keys), dtype=torch.long)
        self._counts = summed.index_add_(0, places, torch.cat([self._counts, counts]))
        if len(self._keys) > self._most:
            kept = self._counts.topk(self._most // 2).indices.sort().values
            self._keys, self._counts = self._keys[kept], self._counts[kept]
            self.is_complete = False

    def among(self, classes: Tensor) -> Tensor:
        """Counts (M, M) by given and suggested class, restricted to ``classes`` (M,)."""
        place = torch.full((self._num_classes,), -1)
        place[classes] = torch.arange(len(classes))
        given, suggested = place[self._keys // self._num_classes], place[self._keys % self._num_classes]
        inside = (given >= 0) & (suggested >= 0)
        matrix = torch.zeros(len(classes), len(classes), dtype=torch.long)
        matrix[given[inside], suggested[inside]] = self._counts[inside]
        return matrix

    def commonest(self, most: int) -> list[tuple[int, int, int]]:
        """The ``most`` most frequent pairs: given class, suggested class and count."""
        order = self._counts.argsort(descending=True, stable=True)[:most].tolist()
        return [(*self._pair(index), int(self._counts[index])) for index in order]

    def commonest_of_given(self) -> dict[int, tuple[int, int]]:
        """For each given class, the class suggested most often instead, and its count."""
        order = self._counts.argsort(stable=True).tolist()  # the most frequent are written last
        pairs = ((*self._pair(index), int(self._counts[index])) for index in order)
        return {given: (suggested, count) for given, suggested, count in pairs}

    def _pair(self, index: int) -> tuple[int, int]:
        given, suggested = divmod(int(self._keys[index]), self._num_classes)
        return given, suggested


@dataclass
class TruthCounts:
    """How many labels are correct, if the true labels are known.

    Attributes:
        rows: All rows.
        given_right: Rows whose given label is correct.
        suggested_right: Rows whose suggested label is correct.
        relabelled: Rows to relabel.
        relabelled_right: Rows to relabel whose suggested label is correct.
        found: Rows whose given label is wrong and differs from the suggested one.
    """

    rows: int = 0
    given_right: int = 0
    suggested_right: int = 0
    relabelled: int = 0
    relabelled_right: int = 0
    found: int = 0

    def add(self, judged: Judged, truth: Tensor) -> None:
        """Count rows with their true classes (B,)."""
        given, suggested = judged.given == truth, judged.suggested == truth
        relabelled = judged.verdict == RELABEL
        self.rows += len(judged)
        self.given_right += int(given.sum())
        self.suggested_right += int(suggested.sum())
        self.relabelled += int(relabelled.sum())
        self.relabelled_right += int((relabelled & suggested).sum())
        self.found += int((~given & judged.changed).sum())

    @property
    def wrong(self) -> int:
        """Rows whose given label is wrong."""
        return self.rows - self.given_right


class LabelCounts:
    """Counts of given and learned labels over all rows.

    Attributes:
        given: (C,) rows by given class.
        suggested: (C,) rows by suggested class.
        changed: (C,) rows by given class whose suggested class differs.
        verdicts: (C, 4) rows by given class and verdict.
        confidence: (C,) float64, sum of confidences by given class.
        histogram: (4, BINS) rows by verdict and confidence.
        doubt: Sum of the probabilities that given labels are wrong.
        decided: Rows with a review decision.
        pairs: Rows by given and suggested class, for those that differ.
        truth: Correct labels; all zero if the true labels are unknown.
    """

    def __init__(self, num_classes: int) -> None:
        whole = torch.zeros(num_classes, dtype=torch.long)
        self.given, self.suggested, self.changed = whole.clone(), whole.clone(), whole.clone()
        self.verdicts = torch.zeros(num_classes, len(VERDICTS), dtype=torch.long)
        self.confidence = torch.zeros(num_classes, dtype=torch.float64)
        self.histogram = torch.zeros(len(VERDICTS), BINS, dtype=torch.long)
        self.doubt = 0.0
        self.decided = 0
        self.pairs = PairCounts(num_classes)
        self.truth = TruthCounts()

    def add(self, judged: Judged, truth: Tensor | None = None) -> None:
        """Count some rows; ``truth`` (B,) are their true classes, if known."""
        classes, changed = len(self.given), judged.changed
        self.given += judged.given.bincount(minlength=classes)
        self.suggested += judged.suggested.bincount(minlength=classes)
        self.changed += judged.given[changed].bincount(minlength=classes)
        self.confidence.index_add_(0, judged.given, judged.confidence.double())
        self.verdicts += _table(judged.given, judged.verdict, classes, len(VERDICTS))
        bins = (judged.confidence * BINS).long().clamp(0, BINS - 1)
        self.histogram += _table(judged.verdict, bins, len(VERDICTS), BINS)
        self.doubt += float(judged.p_wrong.double().sum())
        self.decided += int(judged.is_decided.sum())
        self.pairs.add(judged.given[changed], judged.suggested[changed])
        if truth is not None:
            self.truth.add(judged, truth)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self.given.sum())

    @property
    def total_changed(self) -> int:
        """The number of rows whose suggested class differs from the given one."""
        return int(self.changed.sum())

    def total(self, verdict: int) -> int:
        """The number of rows with a verdict."""
        return int(self.verdicts[:, verdict].sum())

    @property
    def totals(self) -> dict[str, int]:
        """Rows by verdict; ``drop`` is included only if a reviewer dropped some."""
        shown = len(VERDICTS) if self.total(DROP) else DROP
        return {VERDICTS[verdict]: self.total(verdict) for verdict in range(shown)}


@dataclass(frozen=True)
class Findings:
    """Counts over a run's labels, and the rows to show.

    Attributes:
        counts: Sums over all rows.
        corrections: The most confident of the rows to relabel.
        reviews: The least confident of the rows to review.
    """

    counts: LabelCounts
    corrections: list[Case]
    reviews: list[Case]


def find(
    chunks: Iterable[Judged],
    num_classes: int,
    *,
    examples: int,
    truth: Tensor | None = None,
) -> Findings:
    """Count all rows and keep ``examples`` rows per list; ``truth`` (N,) are the true classes, if known."""
    counts = LabelCounts(num_classes)
    corrections, reviews = Shortlist(RELABEL, examples), Shortlist(REVIEW, examples)
    for judged in chunks:
        counts.add(judged, None if truth is None else truth[judged.first : judged.first + len(judged)])
        corrections.add(judged, surest(judged))
        reviews.add(judged, least_sure(judged))
    return Findings(counts, corrections.cases(), reviews.cases())


@dataclass(frozen=True)
class Transition:
    """The estimated transition matrix P(given | true) of some classes, with suggested classes assumed to be true.

    Attributes:
        classes: (M,) the classes: all, or those with the most changes.
        counts: (M, M) rows by suggested class (down) and given class (across).
        shares: (M, M) the counts, divided by the number of rows with the same suggested class.
        is_whole: Whether these are all classes.
    """

    classes: list[int]
    counts: list[list[int]]
    shares: list[list[float]]
    is_whole: bool


def transition(counts: LabelCounts, most: int = MOST_CLASSES) -> Transition:
    """Estimate the transition matrix of the ``most`` classes with the most changes."""
    classes = most_changed(counts, most)
    matrix = counts.pairs.among(classes).T + torch.diag((counts.given - counts.changed)[classes])
    totals = counts.suggested[classes].clamp_min(1)
    shares = matrix.double() / totals[:, None]
    return Transition(
        classes.tolist(), matrix.tolist(), shares.tolist(), is_whole=len(classes) == len(counts.given)
    )


def most_changed(counts: LabelCounts, most: int) -> Tensor:
    """The ``most`` classes with the most changes from or to them, in ascending order."""
    staying = counts.given - counts.changed
    moves = counts.changed + (counts.suggested - staying)
    return moves.argsort(descending=True, stable=True)[:most].sort().values


def _table(first: Tensor, second: Tensor, height: int, width: int) -> Tensor:
    """Count each pair of numbers (B,), (B,) in a table (height, width)."""
    return (first * width + second).bincount(minlength=height * width).view(height, width)
