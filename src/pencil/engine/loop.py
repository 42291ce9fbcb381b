"""The training loop: gather, call, scatter. It does not depend on PENCIL.

A run is a number of optimiser steps. The step number alone says which epoch it is, which rows come next, how they
are augmented and what every schedule reads; weights, optimiser, label rows and random state are the rest. So a run
that was stopped anywhere continues exactly.

What a step does is in ``step``, what an epoch measures in ``measures``, what a checkpoint takes in ``saving``. A policy
(``policy``) may change the plan at the end of an epoch; the plan is then part of the run's progress, and the step
number means what the plan says.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pencil.algorithm import total_epochs
from pencil.engine.course import Course
from pencil.engine.evaluate import equal_passes, predictions
from pencil.engine.events import Clock
from pencil.engine.guard import Guard
from pencil.engine.measures import epoch_metrics, missing_accuracies
from pencil.engine.policy import Decision, Policy, Restore, changes_plan
from pencil.engine.progress import Progress
from pencil.engine.saving import Saver
from pencil.engine.signals import StopRequest
from pencil.engine.step import Batch, Steps
from pencil.engine.training import Training
from pencil.engine.watch import FAULT, Watch
from pencil.errors import NotFiniteError, RunError
from pencil.models import apart


class Wanted(NamedTuple):
    """What is to be done once a step is taken, alike on all ranks."""

    stop: bool
    save: bool


def _policy_of(training: Training) -> Policy | None:
    """The policy of the user, watched by the alarms where there are any; they need checkpoints."""
    if training.alarms is None or not training.watches or training.checkpoints is None:
        return training.policy
    held_out = 0 if training.validation is None else len(training.validation)
    return Watch(training.alarms, held_out, training.policy)


class Loop:
    """Runs a training from where it stands to its end, or to a request to stop."""

    def __init__(self, training: Training) -> None:
        self.training = training
        self._policy = _policy_of(training)
        followed = training.policy is not None
        self.progress = Progress(
            course=None if self._policy is None else Course(training.learner.phases, followed=followed)
        )
        self._clock = Clock()
        self._guard = Guard(training)
        self._steps = Steps(training, self._guard)
        self._saver = Saver(training, self._guard)

    @property
    def step(self) -> int:
        """Optimiser steps taken, those that a restore has undone included."""
        return self.progress.taken

    @property
    def total_steps(self) -> int:
        """Optimiser steps of the whole run."""
        planned = total_epochs(self.training.learner.phases) * self.training.sampler.steps
        return planned + self.progress.undone

    def resume(self) -> bool:
        """Continue from the newest whole checkpoint, if there is one."""
        progress = self._saver.newest()
        if progress is None:
            return False
        course = progress.course or self.progress.course
        if course is not None and not course.has_changed_plan:
            course.phases = tuple(
                self.training.learner.phases
            )  # settings may have changed since the checkpoint
        self._continue(progress, course)
        followed = progress.course is not None and progress.course.followed
        if followed and self.training.policy is None and self.step < self.total_steps:
            raise RunError(
                "this run began with a policy; resume it with the same one: pencil.run.resume(out, policy=...)"
            )
        return True

    def _continue(self, progress: Progress, course: Course | None) -> None:
        """From where a checkpoint left a run, under the plan of its policy."""
        progress.course = course
        self.progress = progress
        if course is not None:
            self.training.learner.phases = course.phases

    def run(self) -> bool:
        """Train; True when the plan is finished, False when a signal stopped it (with a checkpoint).

        Raises ``NotFiniteError``, on all ranks, before a number that is not finite gets into weights or label rows.
        """
        if self.step < self.total_steps:
            self._steps.settle()
        self._emit("begin")
        try:
            with self._saver.finishing(), StopRequest() as stop:
                if not self._train(stop):
                    return False
        except NotFiniteError as error:
            raise NotFiniteError(self._describe(error)) from error
        self._emit("end")
        return True

    def _train(self, stop: StopRequest) -> bool:
        """To the end of the plan; False when a signal stopped it. After a fault, from the best labels on if asked."""
        try:
            while self.step < self.total_steps:
                if not self._run_epoch(stop):
                    return False
            self._save(wait=True)
        except NotFiniteError as error:
            if not self._recover(error):
                raise
            return self._train(stop)
        return True

    def _recover(self, error: NotFiniteError) -> bool:
        """After a value that is not finite: restore what the alarms kept, alike on all ranks; False if they do not."""
        policy, course = self._policy, self.progress.course
        if not isinstance(policy, Watch) or course is None:
            return False
        moment = self.training.learner.moment
        epoch = self.progress.step // self.training.sampler.steps + 1
        metrics = {"epoch": epoch, "phase": moment.phase.name, FAULT: str(error)}
        decision = policy.after_fault(course.end(metrics))
        if decision is None:
            return False
        self._guard.forget()
        self.training.learner.forget()
        course.follow(decision, metrics, self.step)
        self._restore(decision.name)
        if self.step < self.total_steps:
            self._save(wait=False)
        return True

    @property
    def alarms(self) -> list[dict[str, Any]]:
        """The alarms of the run so far; see ``Watch.records``."""
        if not isinstance(self._policy, Watch) or self.progress.course is None:
            return []
        return self._policy.records(self.progress.course.past)

    @property
    def choices(self) -> list[dict[str, Any]]:
        """How the plan was changed while training, and why; see ``Course.choices``."""
        return [] if self.progress.course is None else self.progress.course.choices

    def _describe(self, error: NotFiniteError) -> str:
        """With the step and the last checkpoint. None is taken now: the failed pass changed batch norm's averages."""
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
            self._begin_epoch(progress.step // steps)
        for batch in self._steps.batches(progress):
            self._steps.find_gradients(progress, batch)
            wanted = self._agree(stop, batch)
            self._steps.take(progress)
            progress.seconds = time.monotonic() - started
            if progress.step % steps == 0:
                wanted = self._end_epoch(progress.step // steps, wanted)
            if self._after_step(wanted):
                return False
        return True

    def _begin_epoch(self, epoch: int) -> None:
        """Once before an epoch; a run that is resumed from a checkpoint taken here does the same again."""
        self.training.learner.epoch = float(epoch)
        for call in self.training.before_epoch:
            changed = call(epoch)
            self.progress.changed = self.progress.changed if changed is None else changed
        self._survey()

    def _survey(self) -> None:
        job = self.training
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
        """Ask all ranks once in a step, before it is taken: on any rank something may not be finite."""
        job = self.training
        asked = (stop.requested, self._saver.is_due, not self._guard.is_content())
        stopping, due, doubted = job.runtime.any_of(*asked)
        if doubted:
            self._guard.refuse_step(self.progress.step // job.sampler.steps, batch)
        if job.checkpoint_steps is not None:
            due = due or (self.step + 1) % job.checkpoint_steps == 0
        more = self.step + 1 < self.total_steps  # after the last step there is nothing left to stop
        return Wanted(stop=stopping and more, save=(stopping or due) and more)

    def _end_epoch(self, epochs: int, wanted: Wanted) -> Wanted:
        """Measure, and let the policy decide; returns what is to be done then."""
        job, progress = self.training, self.progress
        totals = progress.tally.of_all_ranks(job.runtime)
        progress.changed = totals.changed if totals.moved else progress.changed
        metrics = epoch_metrics(job, progress, totals, epochs)
        for call in job.after_epoch:
            metrics |= call(epochs) or {}
        progress.end_epoch()
        if self._policy is None or progress.course is None:
            self._emit("epoch", **metrics)
            return wanted
        return self._follow(self._decided(self._policy, progress.course, metrics), wanted)

    def _decided(self, policy: Policy, course: Course, metrics: dict[str, Any]) -> Decision:
        """The policy's decision, recorded and emitted with the metrics of the epoch."""
        job = self.training
        metrics = job.runtime.gathered(metrics)[0]  # ranks differ in seconds
        decision = course.ask(policy, metrics, job.runtime, saves=job.checkpoints is not None)
        course.follow(decision, metrics, self.step)
        if not isinstance(decision, Restore):
            job.learner.phases = course.phases
            metrics = metrics | missing_accuracies(job, metrics)
        said = {"decision": decision.word} if changes_plan(decision) else {}
        said |= {"reason": decision.reason} if decision.reason else {}
        self._emit("epoch", **metrics, **said)
        return decision

    def _follow(self, decision: Decision, wanted: Wanted) -> Wanted:
        """Restore what the decision restores, and save what it keeps."""
        if isinstance(decision, Restore):
            self._restore(decision.name)
        keep = isinstance(decision, Restore) or bool(decision.names)
        more = self.step < self.total_steps  # else a last checkpoint follows
        return Wanted(stop=wanted.stop and more, save=(wanted.save or keep) and more)

    def _restore(self, name: str) -> None:
        """A checkpoint that was kept by name, under the plan that the course has now."""
        job, taken, course = self.training, self.step, self.progress.course
        assert course is not None
        metrics = course.metrics_at(name)
        restored = self._saver.at(course.kept[name].step)
        course.undone = taken - restored.step
        self._continue(restored, course)
        for call in job.after_restore:
            course.add_measures(name, call(restored.step) or {})
        job.learner.epoch = float(metrics["epoch"])
        metrics |= missing_accuracies(job, metrics)
        self._emit("restored", **metrics, restored=name)

    def _after_step(self, wanted: Wanted) -> bool:
        """Save if it is time; True when the loop must end here."""
        if wanted.save:
            self._save(wait=wanted.stop)
        self._emit("step")
        if wanted.stop:
            self._emit("stopped")
        return wanted.stop

    def _save(self, *, wait: bool) -> None:
        """Take a checkpoint of a finite state, in the background unless ``wait`` is set."""
        state = self._saver.finite_state(self.progress)
        if self.training.checkpoints is not None:
            self._emit("checkpoint")
        self._saver.save(self.progress, state, wait=wait)

    def _emit(self, kind: Any, **values: Any) -> None:
        job = self.training
        if job.runtime.is_main:
            left = self._clock.seconds_left(self.step, self.total_steps)
            extra = {
                "total_steps": self.total_steps,
                "phase": job.learner.moment.phase.name,
                "seconds_left": left,
            }
            job.events.emit(kind, self.step, **(values if kind in ("epoch", "restored") else extra | values))
