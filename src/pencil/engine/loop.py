"""The one training loop: gather, call, scatter. It knows nothing of PENCIL.

A run is a number of optimiser steps. The step number alone says which epoch it is, which rows come next, how they
are augmented and what every schedule reads; weights, optimiser, label rows and random state are the rest. So a run
that was stopped anywhere continues exactly.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from pencil.algorithm import total_epochs
from pencil.data.loader import fetch_batches
from pencil.data.sampler import Stretch
from pencil.engine.checkpoint import Checkpoints
from pencil.engine.evaluate import equal_passes, predictions
from pencil.engine.events import Clock
from pencil.engine.guard import Guard
from pencil.engine.mixing import mixed_losses
from pencil.engine.parallel import is_parallel, synchronised
from pencil.engine.row_files import RowSnapshot, read_rows
from pencil.engine.signals import StopRequest
from pencil.engine.state import restore, snapshot
from pencil.engine.tally import Tally
from pencil.engine.training import Training
from pencil.errors import NotFiniteError, RunError
from pencil.models import apart


class Wanted(NamedTuple):
    """What is to be done once a step is taken, alike on all ranks."""

    stop: bool
    save: bool


class Loop:
    """Runs a training from wherever it stands to its end, or to a request to stop."""

    def __init__(self, training: Training) -> None:
        self.training = training
        self.step = 0
        self.tally = Tally()
        self.changed = 0.0
        self._seconds = 0.0
        self._earlier: tuple[Stretch, ...] = ()
        self._clock = Clock()
        self._network = training.model
        if training.runtime.world_size > 1 and not is_parallel(self._network):
            raise RunError("several ranks train a network that Runtime.network made; this one is not shared")
        self._forward = torch.compile(self._network) if training.compile else self._network
        self._saved_at = time.monotonic()
        self._saved_step: int | None = None
        self._guard = Guard(training)

    @property
    def total_steps(self) -> int:
        """Optimiser steps of the whole run."""
        return total_epochs(self.training.learner.phases) * self.training.sampler.steps

    def run(self) -> bool:
        """Train; True when the plan is finished, False when a signal stopped it (with a checkpoint).

        Raises ``NotFiniteError``, on all ranks, before a number that is not finite gets into weights or label rows.
        """
        steps = self.training.sampler.steps
        self._settle()
        self._tell("begin")
        with self._saving_ends(), StopRequest() as stop:
            while self.step < self.total_steps:
                epoch, done = divmod(self.step, steps)
                if not self._run_epoch(epoch, done, stop):
                    return False
            self._save(wait=True)
        self._tell("end")
        return True

    def _settle(self) -> None:
        """Let DDP see a backward pass, with nothing to add, before the first step.

        After its first one it puts gradients in another order, and what three ranks sum up depends on their places: the
        first step after a resume would not be, bit for bit, what it is without one.
        """
        job = self.training
        if self.step < self.total_steps and isinstance(self._network, DistributedDataParallel):
            device = job.runtime.device
            with torch.random.fork_rng([device] if device.type == "cuda" else []):
                self._keep_step()
            job.optimizer.zero_grad(set_to_none=True)

    @contextlib.contextmanager
    def _saving_ends(self) -> Iterator[None]:
        """Whatever ends training, a checkpoint that is being written is still worth having."""
        try:
            yield
        except BaseException as error:
            if self.training.checkpoints is not None:
                with contextlib.suppress(Exception):  # what ended training counts
                    self.training.checkpoints.wait()
            if isinstance(error, NotFiniteError):
                raise NotFiniteError(self._told(error)) from error
            raise

    def _told(self, error: NotFiniteError) -> str:
        """When it was, and what is left. No checkpoint is taken: the failed pass has moved batch norm's averages."""
        learner = self.training.learner
        where = f"epoch {int(learner.epoch) + 1}, {learner.moment.phase.name} phase"
        last = f"the last checkpoint is of step {self._saved_step}"
        left = "there is no checkpoint yet" if self._saved_step is None else last
        return f"training stopped after step {self.step} ({where}): {error}; {left}"

    def resume(self) -> bool:
        """Continue from the newest whole checkpoint, if there is one."""
        job = self.training
        newest = job.checkpoints.newest() if job.checkpoints else None
        if job.checkpoints is None or newest is None:
            return False
        try:
            self._take_up(job.checkpoints, newest)
        except (KeyError, TypeError, ValueError) as error:  # names or values that this program does not write
            raise RunError(
                f"checkpoint {newest} does not fit this run ({type(error).__name__}: {error}); resume it with the "
                "settings, data and code that it began with"
            ) from error
        return True

    def _take_up(self, checkpoints: Checkpoints, newest: Path) -> None:
        job = self.training
        rank, shared = job.runtime.rank, job.learner.shared
        progress = restore(checkpoints, newest, job.backbone, job.optimizer, rank, shared=shared)
        if progress["num_rows"] != job.sampler.num_rows:
            raise RunError(
                f"checkpoint {newest.name} is of {progress['num_rows']} rows, but the data now has "
                f"{job.sampler.num_rows}; resume with the data the run began with"
            )
        read_rows(newest, job.learner.store.state(), job.owned)
        self.step, self._seconds = int(progress["step"]), float(progress["seconds"])
        self._saved_step = self.step
        self._earlier = self._stretches(progress)
        self.changed = float(progress["changed"])
        if rank == 0:  # the sums of all ranks go on in one of them
            self.tally = Tally(**progress["tally"])

    def _stretches(self, progress: dict[str, Any]) -> tuple[Stretch, ...]:
        """Who took the earlier steps of the current epoch, where it was another number of ranks."""
        job = self.training
        earlier = tuple(Stretch(*each) for each in progress["earlier"])
        done = self.step % job.sampler.steps
        if progress["world_size"] != job.runtime.world_size and done:
            earlier += (Stretch(progress["world_size"], done),)
        return earlier

    def _run_epoch(self, epoch: int, done: int, stop: StopRequest) -> bool:
        self._network.train()
        started = time.monotonic() - self._seconds
        if not done:
            self._survey(epoch)
        for batch in self._batches(epoch, done):
            self._find_gradients(epoch, batch)
            wanted = self._agree(stop, epoch, batch)
            self._take_step()
            self._seconds = time.monotonic() - started
            if self.step % self.training.sampler.steps == 0:
                self._end_epoch(epoch)
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
                    self.tally.count_forward(predicted)
                    yield batch, predicted

        job.learner.survey(look, job.runtime.total)

    def _batches(self, epoch: int, done: int) -> Iterator[list[tuple[Tensor, Tensor]]]:
        """For each step, its micro-batches: inputs and local indices."""
        job = self.training
        steps = [
            indices.tensor_split(job.accumulate)
            for indices in job.sampler.batches(epoch, done, self._earlier)
        ]
        fetched = fetch_batches(
            job.train.inputs,
            (part for parts in steps for part in parts if len(part)),
            workers=job.workers,
            pin_memory=job.runtime.device.type == "cuda",
        )
        for parts in steps:
            yield [next(fetched) if len(part) else (part, part) for part in parts]  # no rows, no inputs

    def _find_gradients(self, epoch: int, batch: list[tuple[Tensor, Tensor]]) -> None:
        job = self.training
        done = self.step - epoch * job.sampler.steps
        job.learner.epoch = epoch + done / job.sampler.steps
        for group in job.optimizer.param_groups:
            group["lr"] = job.learner.learning_rate
        # Averaged over ranks is what should be summed over the examples of all ranks.
        scale = job.runtime.world_size / job.sampler.global_size(epoch, done, self._earlier)
        job.optimizer.zero_grad(set_to_none=True)
        for part, (inputs, indices) in enumerate(batch):
            with synchronised(self._network, last=part == len(batch) - 1):
                self._backward(inputs, indices, epoch, scale, part)

    def _agree(self, stop: StopRequest, epoch: int, batch: list[tuple[Tensor, Tensor]]) -> Wanted:
        """Ask all ranks, once in a step: before it is taken, for on any rank something may not be finite."""
        job = self.training
        due = time.monotonic() - self._saved_at >= job.checkpoint_seconds
        stopping, due, doubted = job.runtime.any_of(stop.requested, due, not self._guard.is_content())
        if doubted:
            self._guard.refuse_step(epoch, batch)
        if job.checkpoint_steps is not None:
            due = due or (self.step + 1) % job.checkpoint_steps == 0
        more = self.step + 1 < self.total_steps  # after the last step there is nothing left to stop
        return Wanted(stop=stopping and more, save=(stopping or due) and more)

    def _take_step(self) -> None:
        self.training.optimizer.step()
        self.tally.count_labels(self.training.learner.step())
        self.step += 1

    def _backward(self, inputs: Tensor, indices: Tensor, epoch: int, scale: float, part: int) -> None:
        job = self.training
        if not len(indices):
            self._keep_step()
            return
        if job.learner.mixing is not None:
            losses, logits = self._mixed(inputs, indices, epoch, part)
        else:
            logits = self._logits(job.preparation.training(inputs, job.indices[indices], epoch))
            losses = job.learner.loss(logits, indices, reduction="none", check=False)
        weighted = losses if job.weights is None else losses * job.weights[indices].to(losses.device)
        (weighted.sum() * scale).backward()
        given = job.learner.given.subset(indices).hard.to(logits.device)
        self.tally.count(logits.detach(), losses.detach(), given)
        self._guard.look_at(self.tally.loss, indices, logits, losses)

    def _logits(self, prepared: Tensor) -> Tensor:
        with self.training.runtime.autocast():
            logits: Tensor = self._forward(prepared)
        self.tally.count_forward(logits)
        return logits

    def _mixed(self, inputs: Tensor, indices: Tensor, epoch: int, part: int) -> tuple[Tensor, Tensor]:
        """Losses and logits of a method that learns from mixed views."""
        job = self.training
        assert job.learner.mixing is not None
        views = [
            job.preparation.training(inputs, job.indices[indices], epoch, view)
            for view in range(job.learner.mixing.views)
        ]
        key = (job.preparation.seed, epoch, self.step, job.runtime.rank, part)
        return mixed_losses(job.learner, self._logits, views, indices, key)

    def _keep_step(self) -> None:
        """A rank without rows in a batch still takes part in averaging the gradients, with nothing to add."""
        job = self.training
        if job.runtime.world_size > 1:
            self._network.eval()  # so that batch norm learns nothing from it
            inputs = job.preparation.evaluation(job.train.inputs.fetch(torch.tensor([0])))
            if job.learner.mixing is not None:  # the others guess first, in a pass of its own
                with torch.no_grad():
                    self._network(inputs)
            (self._network(inputs).sum() * 0).backward()
            self._network.train()

    def _end_epoch(self, epoch: int) -> None:
        job = self.training
        totals = self.tally.of_all_ranks(job.runtime)
        self.changed = totals.changed if totals.moved else self.changed
        metrics: dict[str, Any] = {
            "epoch": epoch + 1,
            "phase": job.learner.moment.phase.name,
            "learning_rate": job.learner.learning_rate,
            "loss": totals.loss / totals.examples,
            "train_agreement": totals.agreeing / totals.examples,
            "labels_changed": int(self.changed),
            "forward_passes": int(totals.forward),
            **self._accuracies(epoch),
        }
        metrics["seconds"] = round(self._seconds, 4)
        self.tally, self._seconds, self._earlier = Tally(), 0.0, ()
        self._tell("epoch", **metrics)

    def _accuracies(self, epoch: int) -> dict[str, float]:
        last = epoch + 1 == total_epochs(self.training.learner.phases)
        due = last or (epoch + 1) % self.training.evaluate_every == 0
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
        job = self.training
        job.runtime.agree_on_buffers(job.backbone)
        shared, progress = job.learner.shared, self._progress()
        state = snapshot(job.backbone, job.optimizer, progress, job.runtime.rank, shared=shared)
        self._guard.require_finite(state)
        if job.checkpoints is not None:
            rows = RowSnapshot(job.learner.store.state(), job.owned.start, at_rest=wait)
            self._tell("checkpoint")
            if wait:
                job.checkpoints.save(self.step, state, rows)
            else:
                job.checkpoints.begin(self.step, state, rows)
                job.learner.before_write = rows.note
            self._saved_step = self.step
        self._saved_at = time.monotonic()

    def _progress(self) -> dict[str, Any]:
        """Where the run stands, alike on all ranks."""
        return {
            "step": self.step,
            "num_rows": self.training.sampler.num_rows,
            "world_size": self.training.runtime.world_size,
            "earlier": [astuple(stretch) for stretch in self._earlier],
            "changed": self.changed,
            "tally": asdict(self.tally.of_all_ranks(self.training.runtime)),
            "seconds": self._seconds,
        }

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
