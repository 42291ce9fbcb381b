"""Cross entropy with the given labels, Eq. 1: the baseline every method is measured against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from pencil.algorithm import Method, Moment, Step, cross_entropy


@dataclass(frozen=True, kw_only=True)
class CrossEntropy(Method):
    """Believes every given label. The same phases apply, so optimiser settings are shared with other methods."""

    name: Literal["cross_entropy"] = "cross_entropy"

    def step(self, logits: Tensor, rows: Tensor, given: Tensor, moment: Moment) -> Step:
        """Eq. 1 per example, in every phase."""
        return Step(cross_entropy(logits, given))
