"""Cross entropy with the given labels, Eq. 1: the baseline every method is measured against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from pencil.algorithm import Moment, Step, as_distribution, cross_entropy


@dataclass(frozen=True, kw_only=True)
class CrossEntropy:
    """Believes every given label. The same phases apply, so optimiser settings are shared with other methods."""

    name: Literal["cross_entropy"] = "cross_entropy"

    def row_width(self, num_classes: int) -> int:
        """Nothing is kept per example."""
        return 0

    def start_rows(self, given: Tensor, num_classes: int) -> Tensor:
        """Empty rows (B, 0)."""
        return as_distribution(given, num_classes)[:, :0]

    def label_distribution(self, rows: Tensor, given: Tensor, num_classes: int) -> Tensor:
        """The given labels, unquestioned."""
        return as_distribution(given, num_classes)

    def step(self, logits: Tensor, rows: Tensor, given: Tensor, moment: Moment) -> Step:
        """Eq. 1 per example, in every phase."""
        return Step(cross_entropy(logits, given))
