"""Sums over the examples of an epoch, kept by each rank and put together when they are told."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields

import torch
from torch import Tensor

from pencil.engine.learner import Written
from pencil.engine.runtime import Runtime
from pencil.models import mean_prediction


@dataclass
class Tally:
    """What one rank, or all of them together, have seen of the current epoch.

    Attributes:
        examples: How many.
        loss: The sum of their losses.
        agreeing: How many predictions were the given label.
        moved: How many label rows were written.
        changed: How many of those now suggest another class than the given one.
        forward: Examples sent forward through a network, surveys included; each of several networks counts.
    """

    examples: float = 0
    loss: float = 0
    agreeing: float = 0
    moved: float = 0
    changed: float = 0
    forward: float = 0

    def count(self, logits: Tensor, losses: Tensor, given: Tensor) -> None:
        """Add a batch: logits (B, C), or (B, N, C) of several networks, losses (B,), given classes (B,)."""
        self.examples += len(losses)
        self.loss += float(losses.sum())
        predicted = logits if logits.dim() == 2 else mean_prediction(logits)
        self.agreeing += int((predicted.argmax(dim=1) == given).sum())

    def count_forward(self, outputs: Tensor) -> None:
        """Add what was sent forward: outputs (B, C), or (B, N, C) of several networks."""
        self.forward += len(outputs) * (1 if outputs.dim() == 2 else outputs.shape[1])

    def count_labels(self, written: Written) -> None:
        """Add what a step wrote."""
        self.moved += written.moved
        self.changed += written.changed

    def of_all_ranks(self, runtime: Runtime) -> Tally:
        """The sums over all ranks."""
        totals = runtime.total(torch.tensor(astuple(self), dtype=torch.float64)).tolist()
        return Tally(**{field.name: value for field, value in zip(fields(self), totals, strict=True)})
