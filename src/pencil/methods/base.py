"""The interface every method meets, so that all of them run in the same loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol, TypeVar, runtime_checkable

from torch import Tensor

from pencil.algorithm import Moment, Step, TopRows

R = TypeVar("R", Tensor, TopRows)

Look = Callable[[], Iterator[tuple[Tensor, Tensor]]]
"""One pass over this rank's examples without training: (rows (B,), predictions (B, C)) on the CPU."""
Total = Callable[[Tensor], Tensor]
"""The sum of a tensor over all ranks."""


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


@runtime_checkable
class Surveying(Protocol):
    """What a method has besides if it learns something from all examples together, such as a transition matrix.

    That knowledge is a few tensors, alike on every rank, never changed in place; ``step`` finds them as
    ``moment.shared``, and a checkpoint holds them.
    """

    def start_shared(self, num_classes: int) -> dict[str, Tensor]:
        """The tensors as training begins; their names, shapes and types stay."""
        ...

    def survey_due(self, moment: Moment) -> bool:
        """Whether to survey before the epoch that begins at this moment."""
        ...

    def survey(self, look: Look, total: Total, shared: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The tensors anew, from as many looks at all examples as needed. Every rank takes part."""
        ...
