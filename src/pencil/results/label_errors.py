"""Which labels seem wrong: the answer of ``pencil.find_errors`` as arrays and sentences.

N: rows. C: classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from pencil.belief import NO_CLASS, SHARE, Belief, Decided
from pencil.errors import DataError, did_you_mean
from pencil.results.judged import DROP, KEEP, RELABEL, REVIEW, VERDICTS
from pencil.results.table import Column, Table, escaped, texts

LOOKS = 100
"""Answers that the next step asks for; about ten minutes of looking."""
LOOKS_A_MINUTE = 10


@dataclass(frozen=True)
class NoiseClaim:
    """What is claimed about the share of wrong labels, from 0 to 1.

    Attributes:
        rate: The estimate; None if the features do not tell the classes.
        at_least: The share that is reached at least.
        at_most: None: with one label for each row, errors that look like their features cannot be seen.
    """

    rate: float | None
    at_least: float
    at_most: float | None = None


class LabelErrors:
    """Which labels seem wrong, how sure that is, and what to do next. Printing it says so in sentences.

    Args:
        belief: The belief about all rows.
        class_names: (C,) the classes, in the type of the labels.
        max_false: The largest share of wrong labels among those that are replaced.

    Attributes:
        class_names: (C,) the classes.
        given: (N,) the given labels.
        p_wrong: (N,) float32, the probability that the given label is wrong.
        suggested: (N,) the likeliest class of each row.
        confidence: (N,) float32, its probability.
        noise: The share of wrong labels, as far as it can be known.
    """

    def __init__(self, belief: Belief, class_names: Column, *, max_false: float = SHARE) -> None:
        self._belief, self._max_false = belief, max_false
        self.class_names = class_names
        self.given: Column = class_names[belief.given.numpy()]
        self.p_wrong: Column = self._decided.p_wrong.numpy()
        self.suggested: Column = class_names[self._decided.suggested.numpy()]
        self.confidence: Column = self._decided.confidence.numpy()
        rate = float(self._decided.p_wrong.mean()) if belief.checks.known else None
        self.noise = NoiseClaim(rate, self._decided.at_least)

    @cached_property
    def _decided(self) -> Decided:
        return self._belief.decided(self._max_false)

    @cached_property
    def verdict(self) -> Column:
        """(N,) ``relabel`` where the suggestion is sure enough, ``review`` where the label is doubtful, or ``keep``.

        ``drop`` where somebody answered that the row belongs to no class.
        """
        found, answers = self._decided, self._belief.answers
        doubtful = (found.p_wrong > 0.5) | (found.suggested != self._belief.given)
        verdict = torch.where(found.replaced, RELABEL, torch.where(doubtful, REVIEW, KEEP))
        for row, label in answers.items():
            if label == NO_CLASS or not bool(found.replaced[row]):
                verdict[row] = DROP if label == NO_CLASS else KEEP
        words: Column = texts(VERDICTS)[verdict.numpy()]
        return words

    @property
    def order(self) -> NDArray[np.int64]:
        """(N,) the rows, those that are likeliest wrong first."""
        return np.argsort(-self.p_wrong, kind="stable")

    @property
    def by_class(self) -> Table:
        """For each class its rows, and about how many of their labels are wrong."""
        rows = np.bincount(self._belief.given.numpy(), minlength=len(self.class_names))
        wrong = np.bincount(self._belief.given.numpy(), weights=self.p_wrong, minlength=len(self.class_names))
        return Table({"class": self.class_names, "rows": rows, "wrong": wrong})

    @property
    def table(self) -> Table:
        """All rows: given, suggested, confidence, p_wrong, verdict."""
        names = ("given", "suggested", "confidence", "p_wrong", "verdict")
        return Table({name: getattr(self, name) for name in names})

    def labels(self, take: Literal["sure", "best"] = "sure", *, max_false: float | None = None) -> Column:
        """(N,) better labels, for training or for further work.

        Args:
            take: ``sure`` replaces labels as long as the share of wrong ones among the replaced stays small; ``best``
                takes the likeliest class of every row, which leaves fewer wrong labels in all.
            max_false: The largest share of wrong labels among those that ``sure`` replaces.
        """
        if take not in ("sure", "best"):
            raise DataError(f"take: {take!r} must be 'sure' or 'best'")
        if take == "best":
            best: Column = self.class_names[self._belief.best().numpy()]
            return best
        found = self._decided if max_false is None else self._belief.decided(_share(max_false))
        return np.where(found.replaced.numpy(), self.class_names[found.suggested.numpy()], self.given)

    def ask(self, number: int = LOOKS) -> NDArray[np.int64]:
        """Rows whose answers help most: look at them, and give what they are to ``answer``."""
        if number < 1:
            raise DataError(f"number: {number} must be at least 1")
        return self._belief.ask(number).numpy()

    def answer(
        self, rows: ArrayLike | Mapping[int, Any], labels: ArrayLike | Iterable[Any] | None = None
    ) -> LabelErrors:
        """The errors, with answers of people taken into account.

        Args:
            rows: The numbers of the rows (M,); or a mapping from numbers to labels.
            labels: (M,) what the rows are; None for a row that belongs to no class.
        """
        pairs = rows.items() if isinstance(rows, Mapping) else _pairs(rows, labels)
        said = {self._row(row): _plain(label) for row, label in pairs}
        names = self._names_with(said.values())
        numbers = {name: number for number, name in enumerate(names.tolist())}
        answers = {row: NO_CLASS if label is None else numbers[label] for row, label in said.items()}
        return LabelErrors(self._belief.answered(answers), names, max_false=self._max_false)

    def _names_with(self, said: Iterable[Any]) -> Column:
        """The classes, and those that no label has but an answer; an answer like a class is taken for a mistake."""
        known = dict.fromkeys(self.class_names.tolist())
        new = [label for label in dict.fromkeys(said) if label is not None and label not in known]
        for label in new:
            like = did_you_mean(label, map(str, known)) if isinstance(label, str) else ""
            if like or not isinstance(label, type(next(iter(known)))):
                raise DataError(
                    f"labels: {label!r} is no class of the data{like}; give None for a row of no class"
                )
        return np.array([*known, *new]) if new else self.class_names

    def _row(self, row: Any) -> int:
        if isinstance(row, bool | np.bool_) or not isinstance(row, int | np.integer):
            raise DataError(f"rows: {row!r} must be the number of a row")
        if not 0 <= row < len(self.given):
            raise DataError(f"rows: {row} must be from 0 to {len(self.given) - 1}")
        return int(row)

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` with the columns of ``table`` (extra ``pandas``)."""
        return self.table.to_pandas()

    def __len__(self) -> int:
        return len(self.given)

    def __str__(self) -> str:
        return "\n".join([self._headline(), self._replaced(), self._next()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        words = "".join(f"<p>{escaped(line)}</p>" for line in str(self).splitlines())
        first = Table({"row": self.order, **{name: each[self.order] for name, each in self.table.items()}})
        return f"{words}{first._repr_html_()}"

    def _headline(self) -> str:
        rows, rate = len(self), self.noise.rate
        if rate is None:
            return f"The features do not tell the classes of these {rows:,} rows, so wrong labels cannot be found."
        about = f"About {rate * rows:,.0f} of {rows:,} labels seem wrong ({100 * rate:.1f} %)"
        least = self.noise.at_least
        sure = f", at least {least * rows:,.0f}" if least * rows >= 1 else ""
        return f"{about}{sure}; errors that look like their features cannot be seen."

    def _replaced(self) -> str:
        count = int(self._decided.replaced.sum())
        share = f"at most {100 * self._max_false:.0f} % of them falsely"
        if not count:
            why = self._belief.checks.reason
            return f"None can be replaced with {share}{': ' + why if why else ''}."
        return f"{count:,} labels can be replaced, {share}: errors.labels()."

    def _next(self) -> str:
        if not self._belief.ranking.question:
            return "Look at the rows that are likeliest wrong first: errors.order."
        count = min(LOOKS, len(self))
        known = f"{len(self._belief.answers):,} answers are known. " if self._belief.answers else ""
        return (
            f"{known}{count} answers, about {max(1, round(count / LOOKS_A_MINUTE))} minutes, say "
            f"{self._belief.ranking.question}: rows = errors.ask({count}), then errors.answer(rows, labels)."
        )


def _share(value: float) -> float:
    if not 0 < value < 1:
        raise DataError(f"max_false: {value} must be between 0 and 1")
    return value


def _pairs(rows: ArrayLike, labels: ArrayLike | Iterable[Any] | None) -> list[tuple[Any, Any]]:
    places = np.asarray(rows).tolist()
    said = list(np.asarray(labels, dtype=object)) if labels is not None else []
    if len(places) != len(said):
        raise DataError(f"labels: {len(said)} must be as many as rows, {len(places)}")
    return list(zip(places, said, strict=True))


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label
