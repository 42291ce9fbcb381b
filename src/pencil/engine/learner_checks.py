"""Mistakes in a training loop or in a method, found where a ``LabelLearner`` is called."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from pencil.algorithm import Moment, Phase, Rows, Step
from pencil.engine.finite import entries, is_finite
from pencil.errors import ConfigError, DataError, NotFiniteError


def require_shapes(step: Step, count: int, method: str) -> None:
    """Refuse what a method may return by mistake, such as the mean of the losses."""
    losses = tuple(step.loss.shape)
    if losses != (count,) or (step.rows is not None and len(step.rows) != count):
        rows = "" if step.rows is None else f" and {len(step.rows)} rows"
        raise ConfigError(
            f"method {method!r}: step returned losses of shape {losses}{rows} for {count} examples; it must return "
            f"one loss, and one row if any, for each"
        )


def require_finite(step: Step, moment: Moment, epoch: float) -> None:
    """Refuse losses and new rows that are not finite, before anything learns from them."""
    found = {
        "losses": [step.loss.detach()],
        "new label rows": [] if step.rows is None else entries(step.rows),
    }
    for what, tensors in found.items():
        if not all(map(is_finite, tensors)):
            raise NotFiniteError(
                f"the {what} of a batch are not finite (epoch {epoch:.2f}, {moment.phase.name} phase): usually the "
                f"learning rate is too large, {moment.learning_rate:g} by the plan, or an input is not finite"
            )


def refuse_repeated(batches: Iterable[Tensor]) -> None:
    """Refuse a row that occurs twice between two steps: only one of its updates would be kept."""
    indices = [index for batch in batches for index in batch.tolist()]
    if len(set(indices)) != len(indices):
        raise DataError("a row appears twice between two steps; draw batches without replacement")


def refuse_calibrated(phases: Sequence[Phase]) -> None:
    """Refuse phases that begin with recomputed labels: another loop than pencil's own would keep the old ones."""
    for number, phase in enumerate(phases):
        if phase.labels == "calibrated":
            raise ConfigError(
                f'phases[{number}].labels: "calibrated" requires pencil\'s own loop, which holds rows out; leave it '
                "out, or use pencil train"
            )


class FiniteWriter:
    """Writes the rows of a survey; batches that are not finite are not written, but counted."""

    def __init__(self, write: Callable[[Tensor, Rows], None]) -> None:
        self._write = write
        self._bad = 0

    def write(self, indices: Tensor, rows: Rows) -> None:
        """Write rows at indices (B,)."""
        if all(map(is_finite, entries(rows))):
            self._write(indices, rows)
        else:
            self._bad += 1

    def require_finite(self, total: Callable[[Tensor], Tensor], method: str) -> None:
        """Raise on all ranks if one of them counted a batch."""
        if total(torch.tensor([float(self._bad)]))[0]:
            raise NotFiniteError(f"method {method}: label rows, found by its survey, are not finite")


class Reminders:
    """Notices a loop that forgot ``epochs`` or ``step``, and warns of each once."""

    def __init__(self, num_rows: int) -> None:
        self._num_rows = num_rows
        self._seen = self._waiting = 0
        self._clock_runs = self._stepped = self._warned_of_step = False

    def begin_epoch(self) -> None:
        """``epochs`` begins one."""
        self._clock_runs, self._stepped = True, False

    def end_epoch(self, epoch: int, *, waiting: bool) -> None:
        """``epochs`` ends one; ``waiting``: label updates still wait for a step."""
        if waiting and not self._stepped:
            self._remind_of_step(f"in epoch {epoch}")

    def step(self) -> None:
        """``step`` was called."""
        self._stepped, self._waiting = True, 0

    def count(self, examples: int, *, waits: bool, epoch: float) -> None:
        """After the loss of a batch; ``waits``: its label updates wait for a step."""
        self._seen += examples
        self._waiting += examples * waits
        self._clock_runs = self._clock_runs or epoch > 0
        if self._waiting > self._num_rows:
            self._remind_of_step(f"for {self._waiting:,} examples")
        if self._seen > self._num_rows and not self._clock_runs:
            self._clock_runs = True  # warned once
            warnings.warn(
                "the phase never changes, for learner.epoch was not set; write: for epoch in learner.epochs()",
                stacklevel=3,
            )

    def _remind_of_step(self, when: str) -> None:
        if not self._warned_of_step:
            self._warned_of_step = True
            warnings.warn(
                f"learner.step() was not called {when}, so no label changed; call it after optimizer.step()",
                stacklevel=4,
            )
