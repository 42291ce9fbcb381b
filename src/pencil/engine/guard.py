"""Stops training before a number that is not finite gets into weights, label rows or a checkpoint.

Ranks find unlike things: a gradient that is not finite reaches all of them, a label row only its owner. So they are
asked together, and all raise the same, or none.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from torch import Tensor

from pencil.engine.faults import BadStep, Batch, Fault, Pass, fault_in_state, first_fault
from pencil.engine.finite import entries, local, sums_are_finite
from pencil.engine.training import Training
from pencil.errors import NotFiniteError


class Guard:
    """Looks at the steps and states of a training."""

    def __init__(self, job: Training) -> None:
        self._job = job
        self._suspects: list[Pass] = []

    def look_at(self, loss: float, indices: Tensor, logits: Tensor, losses: Tensor) -> None:
        """After a pass over some rows: remember it where the sum of the losses so far is not finite."""
        if not math.isfinite(loss):
            self._suspects.append(Pass(indices, logits.detach(), losses.detach()))

    def is_content(self) -> bool:
        """Whether losses, gradients and new label rows of a step are finite on this rank, by their sums."""
        groups = self._job.optimizer.param_groups
        gradients = (weight.grad for group in groups for weight in group["params"])
        rows = (each for _, new in self._job.learner.waiting() for each in entries(new))
        found = (local(gradient) for gradient in gradients if gradient is not None)
        return not self._suspects and sums_are_finite(found) and sums_are_finite(rows)

    def refuse_step(self, epoch: int, batch: Batch) -> None:
        """Raise what is not finite in a step of which some rank is not content, instead of taking it."""
        self._refuse(lambda: first_fault(BadStep(self._job, epoch, batch, self._suspects)))
        self._suspects.clear()

    def require_finite(self, state: dict[str, Tensor]) -> None:
        """Of what is saved or handed over: a step with finite gradients may still have led out of bounds."""
        numbers = {name: value for name, value in state.items() if value.is_floating_point()}
        if self._job.runtime.any_of(not sums_are_finite(map(local, numbers.values())))[0]:
            self._refuse(lambda: fault_in_state(numbers, self._job))

    def _refuse(self, look: Callable[[], Fault | None]) -> None:
        """Raise the same on all ranks; nothing where every value is finite and only a sum was not."""
        found = [fault for fault in self._job.runtime.gathered(look()) if fault is not None]
        if found:
            raise NotFiniteError(min(found).words)
