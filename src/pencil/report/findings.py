"""What the labels of a run say: sums over all rows, and the few rows worth showing, in one pass.

What is held grows with classes, never with rows. Legend: B rows, C classes, P pairs of classes.
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
"""Classes of the transition matrix that are shown."""
MOST_PAIRS = 1 << 21
"""Pairs of classes counted at a time: 32 MB. With more, the rarest are let go."""


class PairCounts:
    """How often each given class is suggested to be each other class, for the pairs that occur."""

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
        """Counts (M, M) by given and suggested class, of ``classes`` (M,) alone."""
        place = torch.full((self._num_classes,), -1)
        place[classes] = torch.arange(len(classes))
        given, suggested = place[self._keys // self._num_classes], place[self._keys % self._num_classes]
        inside = (given >= 0) & (suggested >= 0)
        matrix = torch.zeros(len(classes), len(classes), dtype=torch.long)
        matrix[given[inside], suggested[inside]] = self._counts[inside]
        return matrix

    def commonest(self, most: int) -> list[tuple[int, int, int]]:
        """Given class, suggested class and count of the commonest pairs, at most so many."""
        order = self._counts.argsort(descending=True, stable=True)[:most].tolist()
        return [(*self._pair(index), int(self._counts[index])) for index in order]

    def commonest_of_given(self) -> dict[int, tuple[int, int]]:
        """For each given class the class it is most often suggested to be, and how often."""
        order = self._counts.argsort(stable=True).tolist()  # the commonest are written last
        pairs = ((*self._pair(index), int(self._counts[index])) for index in order)
        return {given: (suggested, count) for given, suggested, count in pairs}

    def _pair(self, index: int) -> tuple[int, int]:
        given, suggested = divmod(int(self._keys[index]), self._num_classes)
        return given, suggested


@dataclass
class TruthCounts:
    """How right the labels are, where the truth is known.

    Attributes:
        rows: How many rows.
        given_right: Rows whose given label is right.
        suggested_right: Rows whose suggested label is right.
        relabelled: Rows to relabel.
        relabelled_right: Those of them whose suggested label is right.
        found: Rows whose given label is wrong and for which another is suggested.
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
    """What the learned labels say about the given ones, all rows together.

    Attributes:
        given: (C,) rows that came with each class.
        suggested: (C,) rows for which each class is suggested.
        changed: (C,) rows that came with each class and for which another is suggested.
        verdicts: (C, 4) rows of each given class by verdict.
        confidence: (C,) float64, the confidences summed over the rows of each given class.
        histogram: (4, BINS) rows by verdict and confidence.
        doubt: The probabilities that given labels are wrong, summed.
        decided: Rows that a reviewer decided about.
        pairs: Rows by given and suggested class, where they differ.
        truth: How right the labels are; nothing counted where the truth is not known.
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
        """Count some rows, with their true classes (B,) where they are known."""
        classes, changed = len(self.given), judged.changed
        self.given += judged.given.bincount(minlength=classes)
        self.suggested += judged.suggested.bincount(minlength=classes)
        self.changed += judged.given[changed].bincount(minlength=classes)
        self.confidence.index_add_(0, judged.given, judged.confidence.double())
        self.verdicts += _table(judged.given, judged.verdict, classes, len(VERDICTS))
        bins = (judged.confidence * BINS).long().clamp(0, BINS - 1)
        self.histogram += _table(judged.verdict, bins, len(VERDICTS), BINS)
        self.doubt += float(judged.doubt().double().sum())
        self.decided += int(judged.is_decided.sum())
        self.pairs.add(judged.given[changed], judged.suggested[changed])
        if truth is not None:
            self.truth.add(judged, truth)

    @property
    def rows(self) -> int:
        """All rows."""
        return int(self.given.sum())

    @property
    def total_changed(self) -> int:
        """Rows for which another class than the given one is suggested."""
        return int(self.changed.sum())

    def total(self, verdict: int) -> int:
        """Rows with a verdict."""
        return int(self.verdicts[:, verdict].sum())

    @property
    def totals(self) -> dict[str, int]:
        """Rows by verdict; ``drop`` is there only if a reviewer dropped some."""
        shown = len(VERDICTS) if self.total(DROP) else DROP
        return {VERDICTS[verdict]: self.total(verdict) for verdict in range(shown)}


@dataclass(frozen=True)
class Findings:
    """What the labels of a run say.

    Attributes:
        counts: Sums over all rows.
        corrections: The surest of the rows to relabel.
        reviews: The least sure of the rows to review.
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
    """Look at all rows, with their true classes (N,) where they are known; ``examples`` of each list are kept."""
    counts = LabelCounts(num_classes)
    corrections, reviews = Shortlist(RELABEL, examples), Shortlist(REVIEW, examples)
    for judged in chunks:
        counts.add(judged, None if truth is None else truth[judged.first : judged.first + len(judged)])
        corrections.add(judged, surest(judged))
        reviews.add(judged, least_sure(judged))
    return Findings(counts, corrections.cases(), reviews.cases())


@dataclass(frozen=True)
class Transition:
    """Some classes' part of P(given | true), with the suggested classes taken for the true ones.

    Attributes:
        classes: (M,) which classes: all, or those that most changes go from or to.
        counts: (M, M) rows by suggested class (down) and given class (across).
        shares: (M, M) the same, each row divided by all rows for which its class is suggested.
        is_whole: Whether these are all classes.
    """

    classes: list[int]
    counts: list[list[int]]
    shares: list[list[float]]
    is_whole: bool


def transition(counts: LabelCounts, most: int = MOST_CLASSES) -> Transition:
    """The estimate, cut to the ``most`` classes with most changes."""
    classes = most_changed(counts, most)
    matrix = counts.pairs.among(classes).T + torch.diag((counts.given - counts.changed)[classes])
    totals = counts.suggested[classes].clamp_min(1)
    shares = matrix.double() / totals[:, None]
    return Transition(
        classes.tolist(), matrix.tolist(), shares.tolist(), is_whole=len(classes) == len(counts.given)
    )


def most_changed(counts: LabelCounts, most: int) -> Tensor:
    """The classes, in their order, that most changes go from or to: at most so many."""
    staying = counts.given - counts.changed
    moves = counts.changed + (counts.suggested - staying)
    return moves.argsort(descending=True, stable=True)[:most].sort().values


def _table(first: Tensor, second: Tensor, height: int, width: int) -> Tensor:
    """How often each pair of numbers (B,), (B,) occurs: (height, width)."""
    return (first * width + second).bincount(minlength=height * width).view(height, width)
