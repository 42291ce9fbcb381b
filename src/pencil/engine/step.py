"""What one optimiser step does: fetch the rows of a batch, find gradients, update weights and label rows."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from pencil.data.loader import fetch_batches
from pencil.engine.guard import Guard
from pencil.engine.mixing import mixed_losses
from pencil.engine.parallel import is_parallel, synchronised
from pencil.engine.progress import Progress
from pencil.engine.training import Training
from pencil.errors import RunError

Batch = list[tuple[Tensor, Tensor]]
"""The micro-batches of a step: inputs (B, ...) and local indices (B,)."""


class Steps:
    """Takes the steps of a training. Ends of epochs, checkpoints and events are the loop's."""

    def __init__(self, training: Training, guard: Guard) -> None:
        self._training = training
        self._guard = guard
        self._network = training.model
        if training.runtime.world_size > 1 and not is_parallel(self._network):
            raise RunError("several ranks train a network that Runtime.network made; this one is not shared")
        self._forward = torch.compile(self._network) if training.compile else self._network

    def settle(self) -> None:
        """Let DDP see a backward pass, with nothing to add, before the first step.

        After its first one it puts gradients in another order, and what three ranks sum up depends on their places: the
        first step after a resume would not be, bit for bit, what it is without one.
        """
        job = self._training
        if isinstance(self._network, DistributedDataParallel):
            device = job.runtime.device
            with torch.random.fork_rng([device] if device.type == "cuda" else []):
                self._keep_step()
            job.optimizer.zero_grad(set_to_none=True)

    def batches(self, progress: Progress) -> Iterator[Batch]:
        """The batches of the steps that are left of an epoch."""
        job = self._training
        epoch, done = divmod(progress.step, job.sampler.steps)
        steps = [
            indices.tensor_split(job.accumulate)
            for indices in job.sampler.batches(epoch, done, progress.earlier)
        ]
        fetched = fetch_batches(
            job.train.inputs,
            (part for parts in steps for part in parts if len(part)),
            workers=job.workers,
            pin_memory=job.runtime.device.type == "cuda",
        )
        for parts in steps:
            yield [next(fetched) if len(part) else (part, part) for part in parts]  # no rows, no inputs

    def find_gradients(self, progress: Progress, batch: Batch) -> None:
        """Everything of a step that changes neither weights nor label rows."""
        job = self._training
        epoch, done = divmod(progress.step, job.sampler.steps)
        job.learner.epoch = epoch + done / job.sampler.steps
        for group in job.optimizer.param_groups:
            group["lr"] = job.learner.learning_rate
        # Averaged over ranks is what should be summed over the examples of all ranks.
        scale = job.runtime.world_size / job.sampler.global_size(epoch, done, progress.earlier)
        job.optimizer.zero_grad(set_to_none=True)
        for part, (inputs, indices) in enumerate(batch):
            with synchronised(self._network, last=part == len(batch) - 1):
                if len(indices):
                    self._backward(progress, inputs, indices, scale, part)
                else:
                    self._keep_step()

    def take(self, progress: Progress) -> None:
        """Change weights and label rows."""
        self._training.optimizer.step()
        progress.tally.count_labels(self._training.learner.step())
        progress.step += 1

    def _backward(self, progress: Progress, inputs: Tensor, indices: Tensor, scale: float, part: int) -> None:
        job, tally = self._training, progress.tally
        if job.learner.mixing is not None:
            losses, logits = self._mixed(progress, inputs, indices, part)
        else:
            epoch = progress.step // job.sampler.steps
            logits = self._logits(job.preparation.training(inputs, job.indices[indices], epoch), progress)
            losses = job.learner.loss(logits, indices, reduction="none", check=False)
        weighted = losses if job.weights is None else losses * job.weights[indices].to(losses.device)
        (weighted.sum() * scale).backward()
        given = job.learner.given.subset(indices).hard.to(logits.device)
        tally.count(logits.detach(), losses.detach(), given)
        self._guard.look_at(tally.loss, indices, logits, losses)

    def _logits(self, prepared: Tensor, progress: Progress) -> Tensor:
        with self._training.runtime.autocast():
            logits: Tensor = self._forward(prepared)
        progress.tally.count_forward(logits)
        return logits

    def _mixed(self, progress: Progress, inputs: Tensor, indices: Tensor, part: int) -> tuple[Tensor, Tensor]:
        """Losses and logits of a method that learns from mixed views."""
        job = self._training
        assert job.learner.mixing is not None
        epoch = progress.step // job.sampler.steps
        views = [
            job.preparation.training(inputs, job.indices[indices], epoch, view)
            for view in range(job.learner.mixing.views)
        ]
        key = (job.preparation.seed, epoch, progress.step, job.runtime.rank, part)
        return mixed_losses(
            job.learner, lambda prepared: self._logits(prepared, progress), views, indices, key
        )

    def _keep_step(self) -> None:
        """A rank without rows in a batch still takes part in averaging the gradients, with nothing to add."""
        job = self._training
        if job.runtime.world_size > 1:
            self._network.eval()  # so that batch norm learns nothing from it
            inputs = job.preparation.evaluation(job.train.inputs.fetch(torch.tensor([0])))
            if job.learner.mixing is not None:  # the others guess first, in a pass of its own
                with torch.no_grad():
                    self._network(inputs)
            (self._network(inputs).sum() * 0).backward()
            self._network.train()
