"""The one training loop: gather, call, scatter. It knows nothing of PENCIL.

A run is a number of optimiser steps. The step number alone says which epoch it is, which rows come next, how they
are augmented and what every schedule reads; weights, optimiser, label rows and random state are the rest. So a run
that was stopped anywhere continues exactly.

What a step does is in ``step``, what a checkpoint takes in ``saving``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pencil.algorithm import total_epochs
from pencil.engine.evaluate import equal_passes, predictions
from pencil.engine.events import Clock
from pencil.engine.guard import Guard
from pencil.engine.progress import Progress, Tally
from pencil.engine.saving import Saver
from pencil.engine.signals import StopRequest
from pencil.engine.step import Batch, Steps
from pencil.engine.training import Training
from pencil.errors import NotFiniteError
from pencil.models import apart


class Wanted(NamedTuple):
    """What is to be done once a step is taken, alike on all ranks."""

    stop: bool
    save: bool


class Loop:
    """Runs a training from wherever it stands to its end, or to a request to stop."""

    def __init__(self, training: Training) -> None:
        self.training = training
        self.progress = Progress()
        self._clock = Clock()
        self._guard = Guard(training)
        self._steps = Steps(training, self._guard)
        self._saver = Saver(training, self._guard)

    @property
    def step(self) -> int:
        """Optimiser steps done."""
        return self.progress.step

    @property
    def total_steps(self) -> int:
        """Optimiser steps of the whole run."""
        return total_epochs(self.training.learner.phases) * self.training.sampler.steps

    def resume(self) -> bool:
        """Continue from the newest whole checkpoint, if there is one."""
        progress = self._saver.newest()
        self.progress = progress or self.progress
        return progress is not None

    def run(self) -> bool:
        """Train; True when the plan is finished, False when a signal stopped it (with a checkpoint).

        Raises ``NotFiniteError``, on all ranks, before a number that is not finite gets into weights or label rows.
        """
        if self.step < self.total_steps:
            self._steps.settle()
        self._tell("begin")
        try:
            with self._saver.finishing(), StopRequest() as stop:
                while self.step < self.total_steps:
                    if not self._run_epoch(stop):
                        return False
                self._save(wait=True)
        except NotFiniteError as error:
            raise NotFiniteError(self._describe(error)) from error
        self._tell("end")
        return True

    def _describe(self, error: NotFiniteError) -> str:
        """When it was, and what is left. No checkpoint is taken: the failed pass has moved batch norm's averages."""
        learner, saved = self.training.learner, self._saver.step
        where = f"epoch {int(learner.epoch) + 1}, {learner.moment.phase.name} phase"
        left = "there is no checkpoint yet" if saved is None else f"the last checkpoint is of step {saved}"
        return f"training stopped after step {self.step} ({where}): {error}; {left}"

    def _run_epoch(self, stop: StopRequest) -> bool:
        """The rest of an epoch; False when a signal stopped it."""
        progress, steps = self.progress, self.training.sampler.steps
        self.training.model.train()
        started = time.monotonic() - progress.seconds
        if progress.step % steps == 0:
            self._survey(progress.step // steps)
        for batch in self._steps.batches(progress):
            self._steps.find_gradients(progress, batch)
            wanted = self._agree(stop, batch)
            self._steps.take(progress)
            progress.seconds = time.monotonic() - started
            if progress.step % steps == 0:
                self._end_epoch(progress.step // steps)
            if self._after_step(wanted):
                return False
        return True

    def _survey(self, epoch: int) -> None:
        """Once before an epoch; a checkpoint taken here is resumed with the same survey."""
        job = self.training
        job.learner.epoch = float(epoch)
        indices = torch.arange(len(job.train))

        def look() -> Iterator[tuple[Tensor, Tensor]]:
            job.runtime.agree_on_buffers(job.backbone)
            passes = equal_passes(job.sampler.num_rows, job.runtime)
            with apart(job.backbone):
                seen = predictions(
                    job.backbone,
                    job.train.inputs,
                    indices,
                    job.preparation,
                    job.runtime,
                    job.workers,
                    passes,
                )
                for batch, predicted in seen:
                    self.progress.tally.count_forward(predicted)
                    yield batch, predicted

        job.learner.survey(look, job.runtime.total)

    def _agree(self, stop: StopRequest, batch: Batch) -> Wanted:
        """Ask all ranks, once in a step: before it is taken, for on any rank something may not be finite."""
        job = self.training
        asked = (stop.requested, self._saver.is_due, not self._guard.is_content())
        stopping, due, doubted = job.runtime.any_of(*asked)
        if doubted:
            self._guard.refuse_step(self.step // job.sampler.steps, batch)
        if job.checkpoint_steps is not None:
            due = due or (self.step + 1) % job.checkpoint_steps == 0
        more = self.step + 1 < self.total_steps  # after the last step there is nothing left to stop
        return Wanted(stop=stopping and more, save=(stopping or due) and more)

    def _end_epoch(self, epochs: int) -> None:
        job, progress = self.training, self.progress
        totals = progress.tally.of_all_ranks(job.runtime)
        progress.changed = totals.changed if totals.moved else progress.changed
        metrics = self._metrics(epochs, totals)
        progress.end_epoch()
        self._tell("epoch", **metrics)

    def _metrics(self, epochs: int, totals: Tally) -> dict[str, Any]:
        """Of the last of ``epochs`` epochs, from the sums of all ranks."""
        learner = self.training.learner
        return {
            "epoch": epochs,
            "phase": learner.moment.phase.name,
            "learning_rate": learner.learning_rate,
            "loss": totals.loss / totals.examples,
            "train_agreement": totals.agreeing / totals.examples,
            "labels_changed": int(self.progress.changed),
            "forward_passes": int(totals.forward),
            **self._accuracies(epochs),
            "seconds": round(self.progress.seconds, 4),
        }

    def _accuracies(self, epochs: int) -> dict[str, float]:
        last = epochs == total_epochs(self.training.learner.phases)
        due = last or epochs % self.training.evaluate_every == 0
        return self.training.accuracies() if due else {}

    def _after_step(self, wanted: Wanted) -> bool:
        """Save if it is time; True when the loop must end here."""
        if wanted.save:
            self._save(wait=wanted.stop)
        self._tell("step")
        if wanted.stop:
            self._tell("stopped")
        return wanted.stop

    def _save(self, *, wait: bool) -> None:
        """Take a checkpoint of what is finite, beside training unless somebody waits for it."""
        state = self._saver.finite_state(self.progress)
        if self.training.checkpoints is not None:
            self._tell("checkpoint")
        self._saver.save(self.step, state, wait=wait)

    def _tell(self, kind: Any, **values: Any) -> None:
        job = self.training
        if job.runtime.is_main:
            left = self._clock.seconds_left(self.step, self.total_steps)
            extra = {
                "total_steps": self.total_steps,
                "phase": job.learner.moment.phase.name,
                "seconds_left": left,
            }
            job.events.tell(kind, self.step, **(values if kind == "epoch" else extra | values))
