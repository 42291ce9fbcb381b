"""What a ``LabelLearner`` returns: the labels it believes in, and how many of them a step changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from pencil.results import VERDICTS, VerdictRule
from pencil.results.judged import verdicts_of
from pencil.results.table import Column, Table, texts


@dataclass(frozen=True)
class LearnedLabels:
    """The labels that a run believes in, of some rows.

    Attributes:
        given: (N,) int64, the class that came with the example.
        suggested: (N,) int64, the likeliest class now.
        confidence: (N,) float32, the probability of the suggested class.
        p_wrong: (N,) float32, the probability that the given class is wrong.

    These probabilities are what the method believes; they are not calibrated as those of ``pencil labels`` are.
    """

    given: Tensor
    suggested: Tensor
    confidence: Tensor
    p_wrong: Tensor

    @property
    def verdicts(self) -> Column:
        """(N,) ``keep``, ``relabel`` or ``review``, by the default of ``VerdictRule`` for each row by itself."""
        least = VerdictRule().row_threshold()
        found = verdicts_of(self.given, self.suggested, self.confidence, self.p_wrong, least)
        column: Column = texts(VERDICTS)[found.numpy()]
        return column

    @property
    def table(self) -> Table:
        """Everything as columns, with an entry per row."""
        names = ("given", "suggested", "confidence", "p_wrong")
        columns: dict[str, Column] = {name: getattr(self, name).numpy() for name in names}
        return Table({**columns, "verdict": self.verdicts})

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` with the columns of ``table`` (extra ``pandas``)."""
        return self.table.to_pandas()

    def _repr_html_(self) -> str:
        changed = int((self.suggested != self.given).sum())
        return f"<p>{changed:,} of {len(self.given):,} labels changed</p>{self.table._repr_html_()}"


@dataclass(frozen=True)
class LabelChanges:
    """How many label rows a step wrote.

    Attributes:
        moved: Rows that were written.
        changed: How many of them now suggest another class than the given one.
    """

    moved: int = 0
    changed: int = 0
