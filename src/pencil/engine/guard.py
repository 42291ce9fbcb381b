"""Stops training before a number that is not finite gets into weights, label rows or a checkpoint.

Every step is checked by sums, which is quick. Only where a sum is not finite is every value looked at, to name what is
wrong, the likely cause and the remedy. Ranks find different things: a gradient that is not finite reaches all of them,
a label row only its owner. So they are asked together, and all raise the same error, or none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from pencil.engine.finite import entries, finite_rows, is_finite, local, sums_are_finite
from pencil.engine.training import Training
from pencil.errors import NotFiniteError

Batch = Sequence[tuple[Tensor, Tensor]]
"""(inputs, indices) of each pass of a step."""
LARGE = 1e4  # inputs beyond this more likely need scaling than a lower learning rate


class Fault(NamedTuple):
    """What is not finite; of several, the one of the lowest order is reported, because it caused the others."""

    order: int
    words: str


class Pass(NamedTuple):
    """What a network made of a batch of rows: their indices (B,), logits (B, ...) and losses (B,)."""

    indices: Tensor
    logits: Tensor
    losses: Tensor


@dataclass(frozen=True)
class BadStep:
    """A step that must not be taken, on this rank.

    Attributes:
        job: The training.
        epoch: Which one it is in.
        batch: What it is made of.
        passes: Those whose losses do not add up to a finite number.
    """

    job: Training
    epoch: int
    batch: Batch
    passes: Sequence[Pass]


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
        """Raise what is not finite in a step that failed the quick check on some rank, instead of taking it."""
        self._refuse(lambda: first_fault(BadStep(self._job, epoch, batch, self._suspects)))
        self._suspects.clear()

    def forget(self) -> None:
        """Drop what was remembered of a step that is not taken."""
        self._suspects.clear()

    def require_finite(self, state: dict[str, Tensor]) -> None:
        """Check what is saved: a step with finite gradients may still have led to weights that are not."""
        numbers = {name: value for name, value in state.items() if value.is_floating_point()}
        if self._job.runtime.any_of(not sums_are_finite(map(local, numbers.values())))[0]:
            self._refuse(lambda: fault_in_state(numbers, self._job))

    def _refuse(self, look: Callable[[], Fault | None]) -> None:
        """Raise the same on all ranks; nothing where every value is finite and only a sum was not."""
        found = [fault for fault in self._job.runtime.gathered(look()) if fault is not None]
        if found:
            raise NotFiniteError(min(found).words)


def first_fault(step: BadStep) -> Fault | None:
    """The first thing that is not finite, in the order in which a step computes them; None where all are."""
    looks: tuple[Callable[[BadStep], str | None], ...] = (_input, _weight, _output, _loss, _gradient, _row)
    found = (Fault(order, words) for order, look in enumerate(looks) if (words := look(step)))
    return next(found, None)


def fault_in_state(state: Mapping[str, Tensor], job: Training) -> Fault | None:
    """The first entry of a state to be saved that is not finite."""
    name = _first_name(state.items())
    return None if name is None else Fault(0, f"{name} is not finite: {_rate(job)}")


def _input(step: BadStep) -> str | None:
    for prepared, indices in _prepared(step):
        bad = (~finite_rows(prepared)).nonzero()
        if len(bad):
            name = _example(step.job, indices[bad[0]])
            return f"the input of {name} is not finite: fix it in the data, or leave the example out"
    return None


def _weight(step: BadStep) -> str | None:
    name = _first_name((name, weight.detach()) for name, weight in step.job.model.named_parameters())
    return None if name is None else f"{name} is not finite: {_rate(step.job)}"


def _output(step: BadStep) -> str | None:
    for each in step.passes:
        bad = (~finite_rows(each.logits)).nonzero()
        if len(bad):
            name = _example(step.job, each.indices[bad[0].cpu()])
            return f"the network's output for {name} is not finite: {_cause(step)}"
    return None


def _loss(step: BadStep) -> str | None:
    for each in step.passes:
        worst = each.losses.abs().nan_to_num(nan=torch.inf).argmax()
        return f"the loss of {_example(step.job, each.indices[worst.cpu()])} is not finite: {_cause(step)}"
    return None


def _gradient(step: BadStep) -> str | None:
    weights = step.job.model.named_parameters()
    name = _first_name((name, weight.grad) for name, weight in weights if weight.grad is not None)
    return None if name is None else f"the gradient of {name} is not finite: {_cause(step)}"


def _row(step: BadStep) -> str | None:
    for indices, rows in step.job.learner.waiting():
        bad = (~torch.stack([finite_rows(each) for each in entries(rows)]).all(dim=0)).nonzero()
        if len(bad):
            name = _example(step.job, indices[bad[0].cpu()])
            return f"the new label row of {name} is not finite: lower the rates among the settings of method"
    return None


def _cause(step: BadStep) -> str:
    largest = max((float(values.abs().max()) for values, _ in _prepared(step)), default=0.0)
    if largest > LARGE:
        return f"inputs reach {largest:.1e}; scale them, or set data.normalize = 'auto'"
    return _rate(step.job)


def _rate(job: Training) -> str:
    name, rate = job.learner.moment.phase.name, job.learner.learning_rate
    return f"usually the learning rate is too large; lower phases.{name}.learning_rate, {rate:g} now"


def _prepared(step: BadStep) -> Iterator[tuple[Tensor, Tensor]]:
    """(what the network saw, indices) of the passes that have rows."""
    job = step.job
    for inputs, indices in step.batch:
        if len(indices):
            yield job.preparation.training(inputs, job.indices[indices], step.epoch), indices


def _example(job: Training, index: Tensor) -> str:
    return f"example {job.train.ids[int(index)]!r}"


def _first_name(tensors: Iterable[tuple[str, Tensor]]) -> str | None:
    return next((name for name, values in tensors if not is_finite(local(values))), None)
