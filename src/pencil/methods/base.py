"""The interface every method meets, so that all of them run in the same loop."""

from __future__ import annotations

from typing import Protocol, TypeVar

from torch import Tensor

from pencil.algorithm import Moment, Step, TopRows

R = TypeVar("R", Tensor, TopRows)


class Method(Protocol[R]):
    """Given logits and the rows of a batch, a loss and the rows' new values. Pure: no table, no clock.

    ``given`` is ŷ: class indices (B,) or distributions (B, C). A row is W = ``row_width`` numbers of the method's
    own meaning; W = 0 for a method that keeps nothing per example. A batch of rows R is a tensor (B, W), or, for a
    method made for it, rows cut to their largest entries.
    """

    @property
    def name(self) -> str:
        """The method's name in configurations and tables."""
        ...

    def row_width(self, num_classes: int) -> int:
        """W, the values a row has."""
        ...

    def start_rows(self, given: Tensor, num_classes: int) -> R:
        """The rows (B, W) as training begins."""
        ...

    def label_distribution(self, rows: R, given: Tensor, num_classes: int) -> R:
        """The belief about the true labels (B, C) that these rows hold."""
        ...

    def step(self, logits: Tensor, rows: R, given: Tensor, moment: Moment) -> Step:
        """Per-example losses (B,) and, where they move, the rows' new values (B, W)."""
        ...
