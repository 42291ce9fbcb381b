"""One pass over a run's labels: sums of all rows, and the few rows worth showing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pencil.report.counts import LabelCounts
from pencil.report.judged import Judged, judge
from pencil.report.shortlist import Case, Shortlist, least_sure, surest
from pencil.results import RELABEL, REVIEW, LabelChunk, VerdictRule


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
    chunks: Iterable[LabelChunk],
    names: Sequence[str],
    rule: VerdictRule,
    *,
    examples: int,
    truth: Tensor | None = None,
) -> Findings:
    """Look at all rows, with their true classes (N,) where they are known; ``examples`` of each list are kept."""
    counts = LabelCounts(len(names))
    corrections, reviews = Shortlist(RELABEL, examples), Shortlist(REVIEW, examples)
    for judged, ids in judged_chunks(chunks, names, rule):
        counts.add(judged, None if truth is None else truth[judged.first : judged.first + len(judged)])
        corrections.add(judged, surest(judged), ids)
        reviews.add(judged, least_sure(judged), ids)
    return Findings(counts, corrections.cases(), reviews.cases())


def judged_chunks(
    chunks: Iterable[LabelChunk], names: Sequence[str], rule: VerdictRule
) -> Iterator[tuple[Judged, Sequence[str]]]:
    """Every chunk's rows as numbers, and their ids."""
    numbers, first = {name: index for index, name in enumerate(names)}, 0
    for chunk in chunks:
        given = torch.tensor([numbers[name] for name in chunk.given])
        yield judge(first, given, chunk.distribution, rule), chunk.ids
        first += len(chunk.ids)
