"""The interface every method meets, so that all of them run in the same loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

from torch import Tensor

from pencil.algorithm import Moment, Step, TopRows

R = TypeVar("R", Tensor, TopRows)

Look = Callable[[], Iterator[tuple[Tensor, Tensor]]]
"""One pass over this rank's examples without training: (rows (B,), predictions (B, C)) on the CPU.

Of a model of N networks the predictions are (B, N, C)."""
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


@runtime_checkable
class RowSurveying(Protocol):
    """What a surveying method has besides if a survey writes every row, from the prediction for it.

    The rows are written first; ``survey`` then looks at rows in place of predictions: (rows (B,), values (B, W)).
    Trusted rows stay as they are.
    """

    def surveyed_rows(self, probs: Tensor, rows: Tensor, given: Tensor) -> Tensor:
        """The rows' new values (B, W), from predictions (B, C) or (B, N, C) and the values until now."""
        ...


@dataclass(frozen=True)
class Guess:
    """What the networks shall learn from examples.

    Attributes:
        targets: (B, N, C), for each of N networks.
        labelled: (B, N) bool, whether the network takes the target for a label.
    """

    targets: Tensor
    labelled: Tensor


@runtime_checkable
class Mixing(Protocol):
    """What a method has besides if it guesses targets from several views and learns from mixed examples (MixUp).

    Where ``mixes`` says so the loop does not call ``step``: it asks for a guess, mixes inputs and targets in pairs with
    λ ~ Beta(α, α), at least 1/2, and asks for the loss of the mixed examples.
    """

    @property
    def alpha(self) -> float:
        """α."""
        ...

    @property
    def views(self) -> int:
        """M, how many augmented views of an example are guessed from and learned."""
        ...

    def mixes(self, moment: Moment) -> bool:
        """Whether examples are mixed at this moment; it changes between epochs only."""
        ...

    def guess(self, logits: Tensor, rows: Tensor, given: Tensor, moment: Moment) -> Guess:
        """The targets, without gradient, from logits (M, B, N, C) of all views."""
        ...

    def mixed_loss(self, logits: Tensor, guess: Guess, moment: Moment) -> Tensor:
        """Per-example losses (B,) from logits (B, N, C) of mixed inputs; ``guess`` holds the mixed targets."""
        ...
