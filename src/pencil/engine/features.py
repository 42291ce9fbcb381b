"""The features that a network computes for each example: the inputs of its last linear layer."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from pencil.engine.evaluate import equal_passes, predictions
from pencil.engine.training import Training


def network_features(training: Training) -> Iterator[tuple[Tensor, Tensor]]:
    """One pass over this rank's examples: batches of indices (B,) and features (B, D) float32 on the CPU.

    A network without a linear layer for the classes has its log-probabilities as features. Every rank takes part.
    """
    job = training
    job.runtime.agree_on_buffers(job.backbone)
    passes = equal_passes(job.sampler.num_rows, job.runtime)
    with _seen_by(_last_linear(job.backbone, job.learner.num_classes)) as seen:
        for batch, predicted in predictions(
            job.backbone,
            job.train.inputs,
            torch.arange(len(job.train)),
            job.preparation,
            job.runtime,
            job.workers,
            passes,
        ):
            yield batch, seen[-1] if seen else predicted.clamp_min(1e-12).log()


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
