"""What a network computes for each example: features, the inputs of its last linear layer, and scores, its log f."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from pencil.data.inputs import Inputs
from pencil.data.order import span
from pencil.engine.evaluate import equal_passes, predictions
from pencil.engine.training import Training

LEAST = 1e-12  # of a probability


def network_features(training: Training) -> Iterator[tuple[Tensor, Tensor]]:
    """One pass over this rank's examples: batches of indices (B,) and features (B, D) float32 on the CPU.

    A network without a linear layer for the classes has its log-probabilities as features. Every rank takes part.
    """
    with _seen_by(_last_linear(training.backbone, training.learner.num_classes)) as seen:
        for batch, scores in network_scores(training):
            yield batch, seen[-1] if seen else scores


def network_scores(training: Training) -> Iterator[tuple[Tensor, Tensor]]:
    """One pass over this rank's examples: indices (B,) and log-probabilities (B, C). Every rank takes part."""
    job, rows = training, torch.arange(len(training.train))
    passes = equal_passes(job.sampler.num_rows, job.runtime)
    return _scores(job, job.train.inputs, rows, passes)


def held_out_scores(training: Training) -> tuple[Tensor, Tensor]:
    """Log-probabilities (M, C) and given classes (M,) of this rank's share of the held-out examples.

    Those with a verified label are left out: they are not as noisy as the training rows whose noise they would tell.
    The ranks divide the work, and every rank takes part.
    """
    job, held_out = training, training.validation
    assert held_out is not None, "examples were held out"
    mine = span(len(held_out), job.runtime.rank, job.runtime.world_size)
    rows = torch.arange(mine.start, mine.stop)
    found = [
        scores for _, scores in _scores(job, held_out.inputs, rows, equal_passes(len(held_out), job.runtime))
    ]
    none = torch.zeros(0, job.learner.num_classes)
    noisy = held_out.labels.unverified[rows]
    return torch.cat([none, *found])[noisy], held_out.labels.hard[rows][noisy]


def _scores(job: Training, inputs: Inputs, rows: Tensor, passes: int) -> Iterator[tuple[Tensor, Tensor]]:
    job.runtime.agree_on_buffers(job.backbone)
    for batch, predicted in predictions(
        job.backbone, inputs, rows, job.preparation, job.runtime, job.workers, passes
    ):
        yield batch, predicted.clamp_min(LEAST).log()


def _last_linear(model: nn.Module, num_classes: int) -> nn.Module | None:
    found = [
        module
        for module in model.modules()
        if isinstance(module, nn.Linear) and module.out_features == num_classes
    ]
    return found[-1] if found else None


@contextlib.contextmanager
def _seen_by(layer: nn.Module | None) -> Iterator[list[Tensor]]:
    """A list that holds the inputs (B, D) of the layer's last pass; empty without a layer."""
    seen: list[Tensor] = []

    def keep(_: nn.Module, inputs: tuple[Any, ...]) -> None:
        seen[:] = [inputs[0].detach().flatten(1).float().cpu()]

    handle = None if layer is None else layer.register_forward_pre_hook(keep)
    try:
        yield seen
    finally:
        if handle is not None:
            handle.remove()
