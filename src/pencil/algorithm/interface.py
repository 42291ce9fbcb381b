"""The interface of a method: what a training loop asks of it, and what it may ask of the loop.

A method turns the logits of a batch and what is known about its labels into losses and, where it learns labels, into
new label rows. Derive a frozen dataclass from ``Method`` and write ``step``; its fields are its settings. Everything
else has a default:

    networks, learns_labels             what the method is
    row_width, start_rows               what it keeps for each example; nothing by default
    label_distribution                  the labels that it believes in; the given ones by default
    warnings                            settings that make no sense with the phases of a run
    cut                                 how it works on rows cut to their largest entries
    wants_noise, with_noise             the transition matrix of a run's own synthetic noise
    start_shared, survey_due, survey    what it learns from all examples together
    mixing                              how it learns from mixed examples (MixUp)

Legend: B examples in the batch, C classes, W values in a row. *Indices* (B,) are row numbers; *rows* (B, W) are their
contents. ``given`` is ŷ, the labels that came with the examples: classes (B,), or distributions (B, C).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import torch
from torch import Tensor

from pencil.algorithm.phases import Moment, Phase
from pencil.algorithm.top_rows import TopRows
from pencil.algorithm.update import as_distribution

Rows = Tensor | TopRows
"""A batch of rows: whole (B, W), or cut to their largest entries."""


@dataclass(frozen=True)
class Step:
    """What a method returns for a batch.

    Attributes:
        loss: One value per example (B,), to be averaged and differentiated by the caller.
        rows: The new rows (B, W), or None where they stay as they are.
    """

    loss: Tensor
    rows: Rows | None = None


@dataclass(frozen=True)
class Survey:
    """All examples of this rank, for a method that learns something from them together.

    Nothing is computed before it is asked for: only ``predictions`` sends examples through the network. Every rank
    takes part: ranks make the same passes and the same calls of ``total``, in the same order.

    Attributes:
        num_classes: C.
        predictions: One pass over the examples without training: batches of indices (B,), predictions (B, C), or
            (B, N, C) of N networks, and given labels, all on the CPU.
        rows: One pass over the label table without the network: batches of indices (B,), rows and given labels.
        write: Writes rows at indices (B,); trusted rows stay as they are.
        total: The sum of a tensor over all ranks.
    """

    num_classes: int
    predictions: Callable[[], Iterator[tuple[Tensor, Tensor, Tensor]]]
    rows: Callable[[], Iterator[tuple[Tensor, Any, Tensor]]]
    write: Callable[[Tensor, Any], None]
    total: Callable[[Tensor], Tensor] = lambda values: values


class Method:
    """Logits and rows of a batch in, losses and new rows out. Pure: it keeps no table and no clock.

    Rows are a tensor (B, W); for a method that ``cut`` returns, ``TopRows``.

    Attributes:
        networks: How many networks it trains; with more than one the logits are (B, N, C).
        learns_labels: Whether it keeps a belief about the true label of each example.
        rows_are_beliefs: Whether ``label_distribution`` follows from the rows alone, not from the labels of the start.
        surveys_predictions: Whether its surveys ask for predictions; if not, they need only the label table.
    """

    networks: ClassVar[int] = 1
    learns_labels: ClassVar[bool] = False
    rows_are_beliefs: ClassVar[bool] = False
    surveys_predictions: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """The name in configurations and messages: the import path, unless it is built in."""
        return f"{type(self).__module__}:{type(self).__qualname__}"

    def step(self, logits: Tensor, rows: Any, given: Tensor, moment: Moment) -> Step:
        """Per-example losses (B,) and, where they move, the new rows (B, W)."""
        raise NotImplementedError(f"{self.name} has no step")

    def row_width(self, num_classes: int) -> int:
        """W, the values of a row."""
        return 0

    def start_rows(self, given: Tensor, num_classes: int) -> Any:
        """The rows (B, W) as training begins."""
        if width := self.row_width(num_classes):
            raise NotImplementedError(f"{self.name} has rows of {width} values but no start_rows")
        return torch.zeros(len(given), 0, device=given.device)

    def label_distribution(self, rows: Any, given: Tensor, num_classes: int) -> Any:
        """The belief about the true labels (B, C) that these rows hold."""
        return as_distribution(given, num_classes)

    def warnings(self, phases: Sequence[Phase], *, hard: bool) -> Sequence[str]:
        """What to warn of before training with these phases; ``hard``: the given labels are classes."""
        return ()

    def cut(self, k: int) -> Method | None:
        """The same method on rows cut to their ``k`` largest entries; None where it needs whole rows."""
        return None

    @property
    def wants_noise(self) -> bool:
        """Whether it needs the transition matrix of the run's synthetic noise."""
        return False

    def with_noise(self, matrix: Tensor | None) -> Self:
        """The method with that matrix (C, C); None where the run has no noise.

        Raises:
            ValueError: Naming the field, its value and the remedy, where the method cannot do without.
        """
        return self

    def start_shared(self, num_classes: int) -> dict[str, Tensor]:
        """What it starts with for all examples together; names, shapes and types stay the same.

        The tensors are equal on every rank and never changed in place. ``step`` finds them as ``moment.shared``, and
        checkpoints hold them.
        """
        return {}

    def survey_due(self, moment: Moment) -> bool:
        """Whether to survey before the epoch that begins at this moment."""
        return False

    def survey(self, survey: Survey, shared: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The shared tensors anew, equal on every rank."""
        return dict(shared)

    def mixing(self) -> Mixing | None:
        """How it learns from mixed examples; None where it does not."""
        return None


@dataclass(frozen=True)
class Guess:
    """What the networks learn from examples.

    Attributes:
        targets: (B, N, C), for each of N networks.
        labelled: (B, N) bool, whether the network takes the target for a label.
    """

    targets: Tensor
    labelled: Tensor


class Mixing(Protocol):
    """What a method offers that guesses targets from several views and learns from mixed examples (MixUp).

    Where ``mixes`` returns True the loop does not call ``step``: it asks for a guess, mixes inputs and targets in pairs
    with λ ~ Beta(α, α), at least 1/2, and asks for the loss of the mixed examples.
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
