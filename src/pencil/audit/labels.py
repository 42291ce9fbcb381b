"""The labels that an audit is about: read once, with a fingerprint that detects any change."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pencil.algorithm import TopRows
from pencil.audit.bounds import allowed, checks_needed
from pencil.audit.draw import Look, shuffled
from pencil.audit.record import Item, Threshold, What
from pencil.identity import run_id
from pencil.results import VERDICTS, Judged
from pencil.results.judged import runners_up
from pencil.run import LabelTable

CHOICES = 3  # classes offered for a label, among them the given and the suggested one
SETS = 8  # nested sets of the fixed sequence
DECIDED = -1
ROOM = 1.5  # the strictest set holds about this many times the checks that it needs without an error


@dataclass(frozen=True)
class FrozenLabels:
    """The labels of all rows of a run that nobody decided about. Arrays have one entry per row.

    Attributes:
        table: The table they come from.
        run: The id of their run; empty for a run from before there were ids.
        names: The class names as text.
        fingerprint: SHA-256 of ids, given and suggested classes, and verdicts.
        verdict: Index into ``VERDICTS``; ``DECIDED`` for rows that somebody decided about, which are not drawn.
        asked: How many rows the stratum of rows that are asked about has.
        confidence: The probability that the suggestion is right.
        p_wrong: The probability that the given label is wrong.
    """

    table: LabelTable
    run: str
    names: tuple[str, ...]
    fingerprint: str
    verdict: NDArray[np.int8]
    confidence: NDArray[np.float32]
    p_wrong: NDArray[np.float32]
    asked: int = 0

    @classmethod
    def of(cls, table: LabelTable, asked: int = 0) -> FrozenLabels:
        """Read all labels of a table."""
        digest, columns = hashlib.sha256(), []
        for judged in table.chunks():
            drawn = judged.verdict.masked_fill(judged.is_decided, DECIDED)
            _add(digest, judged, drawn)
            parts = (drawn.to(torch.int8), judged.confidence.float(), judged.p_wrong.float())
            columns.append([part.numpy() for part in parts])
        verdict, confidence, p_wrong = (np.concatenate(parts) for parts in zip(*columns, strict=True))
        names = tuple(map(plain, table.class_names))
        run = run_id(table.saved.folder.parent) or ""
        return cls(table, run, names, digest.hexdigest(), verdict, confidence, p_wrong, asked)

    @property
    def rule(self) -> dict[str, Any]:
        """The settings that the verdicts depend on."""
        return self.table.described_rule

    def rows_of(self, stratum: str) -> NDArray[np.int64]:
        """The rows with a verdict, or those that are asked about, ascending."""
        if stratum == "asked":
            return np.sort(np.array(self.table.ask(self.asked), dtype=np.int64))
        return np.flatnonzero(self.verdict == VERDICTS.index(stratum))

    def mean_p_wrong(self, stratum: str) -> float:
        """The mean probability of a wrong given label among the rows with a verdict; 0 if there are none."""
        rows = self.rows_of(stratum)
        return float(self.p_wrong[rows].mean(dtype=np.float64)) if len(rows) else 0.0

    def sure(self, what: What) -> NDArray[np.float32]:
        """The confidences of the rows whose fixed sequence an audit tests: the changed ones, or none for all labels."""
        return self.confidence[self.rows_of("relabel")] if what == "relabels" else self.confidence[:0]

    def items(self, looks: Sequence[Look], seed: int) -> list[Item]:
        """The labels that some looks show."""
        rows = {name: self.rows_of(name) for name in {look.stratum for look in looks}}
        return [self._item(look, int(rows[look.stratum][look.place]), seed) for look in looks]

    def _item(self, look: Look, row: int, seed: int) -> Item:
        judged = self.table.row(row)
        suggested = (
            judged.suggested if look.stratum != "asked" else runners_up(judged.distribution, judged.given)[1]
        )
        given, suggestion = (self.names[int(label[0])] for label in (judged.given, suggested))
        return Item(
            **look._asdict(),
            row=row,
            id=plain(judged.ids[0]),
            given=given,
            suggested=suggestion,
            confidence=float(self.confidence[row]),
            p_wrong=float(self.p_wrong[row]),
            choices=shuffled(self._choices(judged, suggested), seed, "choices", look.number),
        )

    def _choices(self, judged: Judged, suggested: Tensor) -> list[str]:
        """The given and the suggested class and the next most likely ones, in the order of the classes."""
        belief = judged.distribution
        whole = (belief.dense() if isinstance(belief, TopRows) else belief)[0].clone()
        whole[judged.given[0]] = whole[suggested[0]] = 2.0
        best = whole.sort(descending=True, stable=True).indices[:CHOICES].sort().values
        return [self.names[label] for label in best.tolist()]


def plain(text: str) -> str:
    """Text that any file can hold: bytes of a name that are no text are written as escapes."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def nested_sets(
    confidence: NDArray[np.float32], checked: int, alpha: float, max_error: float
) -> list[Threshold]:
    """The thresholds of the fixed sequence, from strict to loose; the last set holds all rows.

    A set can only be certified if enough of the sample falls into it, so the strictest set follows from the sample's
    size. All sets are fixed before the first answer.

    Args:
        confidence: (N,) of the relabelled rows.
        checked: The number of labels to check.
        alpha: The risk.
        max_error: The share of errors to certify.
    """
    size = len(confidence)
    if not size:
        return []
    needed = checks_needed(size, alpha, allowed(size, max_error))
    first = min(1.0, ROOM * needed / max(checked, 1))
    ordered = np.sort(confidence)[::-1]
    ends = np.unique(np.ceil(size * np.linspace(first, 1.0, SETS)).astype(int))
    sets = {float(ordered[end - 1]): 0 for end in ends if end}
    return [Threshold(confidence=least, size=int((confidence >= least).sum())) for least in sets]


def _add(digest: Any, judged: Judged, verdict: Tensor) -> None:
    """Add rows to a fingerprint; every part has a length that is fixed or written before it."""
    names = [name.encode("utf-8", "surrogateescape") for name in judged.ids]
    digest.update(np.array([len(name) for name in names], "<i8").tobytes())
    digest.update(b"".join(names))
    for values in (judged.given, judged.suggested, verdict):
        digest.update(values.numpy().astype("<i8").tobytes())
