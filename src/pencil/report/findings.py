"""Statistics over the labels of a run, and the rows to show, computed in one pass.

Memory grows with the number of classes, not with the number of rows. Legend: B rows, C classes, P pairs of classes.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from pencil.estimates import Interval
from pencil.report.shortlist import Case, Shortlist, case_of, least_sure, surest
from pencil.results import DROP, KEEP, RELABEL, REVIEW, VERDICTS, Judged

BINS = 20
"""Ranges of probability in a histogram."""
DEVIATIONS = 1.96
"""Standard deviations on each side of a 95 % interval."""
MOST_PAIRS = 1 << 21
"""Maximum number of class pairs counted (32 MB); beyond it, the rarest are dropped."""


class PairCounts:
    """Number of rows by two classes that differ, such as the given and the suggested one."""

    def __init__(self, num_classes: int, most: int = MOST_PAIRS) -> None:
        self._num_classes, self._most = num_classes, most
        self._keys = torch.empty(0, dtype=torch.long)
        self._counts = torch.empty(0, dtype=torch.long)

    def add(self, first: Tensor, second: Tensor) -> None:
        """Count rows (B,) whose two classes differ."""
        keys, counts = (first * self._num_classes + second).unique(return_counts=True)
        both = torch.cat([self._keys, keys])
        self._keys, places = both.unique(return_inverse=True)
        summed = torch.zeros(len(self._keys), dtype=torch.long)
        self._counts = summed.index_add_(0, places, torch.cat([self._counts, counts]))
        if len(self._keys) > self._most:
            kept = self._counts.topk(self._most // 2).indices.sort().values
            self._keys, self._counts = self._keys[kept], self._counts[kept]

    def among(self, classes: Tensor) -> Tensor:
        """Counts (M, M) by first and second class, restricted to ``classes`` (M,)."""
        place = torch.full((self._num_classes,), -1)
        place[classes] = torch.arange(len(classes))
        first, second = place[self._keys // self._num_classes], place[self._keys % self._num_classes]
        inside = (first >= 0) & (second >= 0)
        matrix = torch.zeros(len(classes), len(classes), dtype=torch.long)
        matrix[first[inside], second[inside]] = self._counts[inside]
        return matrix

    def commonest(self) -> dict[int, tuple[int, int]]:
        """For each first class, its most frequent second class, and their count."""
        order = self._counts.argsort(stable=True).tolist()  # the most frequent are written last
        pairs = ((*self._pair(index), int(self._counts[index])) for index in order)
        return {first: (second, count) for first, second, count in pairs}

    def _pair(self, index: int) -> tuple[int, int]:
        first, second = divmod(int(self._keys[index]), self._num_classes)
        return first, second


class Expected:
    """Number of events among rows of known probability: its expected value, and an interval.

    The interval is the one in which the number lies with 95 % probability if the probabilities are right.
    """

    def __init__(self) -> None:
        self.rows, self.total, self._variance = 0, 0.0, 0.0

    def add(self, probability: Tensor) -> None:
        """Count rows (B,)."""
        p = probability.double()
        self.rows += len(p)
        self.total += float(p.sum())
        self._variance += float((p * (1 - p)).clamp_min(0).sum())

    @property
    def share(self) -> Interval:
        """The share of the rows."""
        rows, reach = max(self.rows, 1), DEVIATIONS * math.sqrt(self._variance)
        low, high = max(self.total - reach, 0.0), min(self.total + reach, float(self.rows))
        return Interval(self.total / rows, low / rows, high / rows)


class TruthCounts:
    """How many labels are right, if the true labels are known.

    Attributes:
        rows: All rows; 0 if the true labels are unknown.
        suggested_wrong: Rows whose suggested label is wrong.
        false_relabels: Rows to relabel whose suggested label is wrong.
        wrong: (C, 4) rows by given class and verdict whose given label is wrong.
        classes: (C,) rows by true class.
        right: (C,) rows by true class whose given label is right.
        pairs: Rows by true and given class, for those that differ.
        bins: (BINS,) rows by probability of a wrong label whose given label is wrong.
    """

    def __init__(self, num_classes: int) -> None:
        self.rows = self.suggested_wrong = self.false_relabels = 0
        self.wrong = torch.zeros(num_classes, len(VERDICTS), dtype=torch.long)
        self.classes, self.right = torch.zeros(2, num_classes, dtype=torch.long)
        self.pairs = PairCounts(num_classes)
        self.bins = torch.zeros(BINS, dtype=torch.long)

    def add(self, judged: Judged, truth: Tensor) -> None:
        """Count rows with their true classes (B,)."""
        wrong, missed = judged.given != truth, judged.suggested != truth
        self.rows += len(judged)
        self.suggested_wrong += int(missed.sum())
        self.false_relabels += int((missed & (judged.verdict == RELABEL)).sum())
        self.wrong += _table(judged.given[wrong], judged.verdict[wrong], *self.wrong.shape)
        self.classes += truth.bincount(minlength=len(self.classes))
        self.right += truth[~wrong].bincount(minlength=len(self.right))
        self.pairs.add(truth[wrong], judged.given[wrong])
        self.bins += _bins(judged.p_wrong[wrong]).bincount(minlength=BINS)

    @property
    def total_wrong(self) -> int:
        """Rows whose given label is wrong."""
        return int(self.wrong.sum())


class LabelCounts:
    """Counts of given and suggested labels over all rows.

    Attributes:
        given: (C,) rows by given class.
        suggested: (C,) rows by suggested class.
        changed: (C,) rows by given class whose suggested class differs.
        verdicts: (C, 4) rows by given class and verdict.
        histogram: (4, BINS) rows by verdict and probability of a wrong label.
        bin_sums: (BINS,) float64, sum of these probabilities.
        false_relabels: Rows to relabel whose suggested label is expected to be wrong.
        false_keeps: Rows to keep whose given label is expected to be wrong.
        decided: Rows with a review decision.
        pairs: Rows by given and suggested class, for those that differ.
        truth: Right labels, if the true labels are known.
    """

    def __init__(self, num_classes: int) -> None:
        whole = torch.zeros(num_classes, dtype=torch.long)
        self.given, self.suggested, self.changed = whole.clone(), whole.clone(), whole.clone()
        self.verdicts = torch.zeros(num_classes, len(VERDICTS), dtype=torch.long)
        self.histogram = torch.zeros(len(VERDICTS), BINS, dtype=torch.long)
        self.bin_sums = torch.zeros(BINS, dtype=torch.float64)
        self.false_relabels, self.false_keeps = Expected(), Expected()
        self.decided = 0
        self.pairs = PairCounts(num_classes)
        self.truth = TruthCounts(num_classes)

    def add(self, judged: Judged, truth: Tensor | None = None) -> None:
        """Count some rows; ``truth`` (B,) are their true classes, if known."""
        classes, changed = len(self.given), judged.changed
        self.given += judged.given.bincount(minlength=classes)
        self.suggested += judged.suggested.bincount(minlength=classes)
        self.changed += judged.given[changed].bincount(minlength=classes)
        self.verdicts += _table(judged.given, judged.verdict, classes, len(VERDICTS))
        bins = _bins(judged.p_wrong)
        self.histogram += _table(judged.verdict, bins, len(VERDICTS), BINS)
        self.bin_sums.index_add_(0, bins, judged.p_wrong.double())
        self.false_relabels.add(1 - judged.confidence[judged.verdict == RELABEL])
        self.false_keeps.add(judged.p_wrong[judged.verdict == KEEP])
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
        asked: The rows that were asked for, by their number.
    """

    counts: LabelCounts
    corrections: list[Case]
    reviews: list[Case]
    asked: dict[int, Case]


def find(
    chunks: Iterable[Judged],
    num_classes: int,
    *,
    examples: int,
    truth: Tensor | None = None,
    rows: Collection[int] = (),
) -> Findings:
    """Count all rows and keep ``examples`` rows per list.

    Args:
        chunks: A run's labels, beginning with row 0.
        num_classes: C.
        examples: How many rows each list has.
        truth: (N,) the true classes, if known.
        rows: Further rows to keep.
    """
    counts, asked = LabelCounts(num_classes), dict[int, Case]()
    corrections, reviews = Shortlist(RELABEL, examples), Shortlist(REVIEW, examples)
    for judged in chunks:
        counts.add(judged, None if truth is None else truth[judged.first : judged.first + len(judged)])
        corrections.add(judged, surest(judged))
        reviews.add(judged, least_sure(judged))
        asked |= _asked(judged, rows)
    return Findings(counts, corrections.cases(), reviews.cases(), asked)


def _asked(judged: Judged, rows: Collection[int]) -> Iterator[tuple[int, Case]]:
    for row in rows:
        if judged.first <= row < judged.first + len(judged):
            yield row, case_of(judged, row - judged.first)


def most_changed(counts: LabelCounts, most: int) -> Tensor:
    """The ``most`` classes with the most changes from or to them, in ascending order."""
    staying = counts.given - counts.changed
    moves = counts.changed + (counts.suggested - staying)
    return moves.argsort(descending=True, stable=True)[:most].sort().values


def _bins(probability: Tensor) -> Tensor:
    """The range (B,) in which each probability lies."""
    return (probability * BINS).long().clamp(0, BINS - 1)


def _table(first: Tensor, second: Tensor, height: int, width: int) -> Tensor:
    """Count each pair of numbers (B,), (B,) in a table (height, width)."""
    return (first * width + second).bincount(minlength=height * width).view(height, width)
