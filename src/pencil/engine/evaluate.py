"""Accuracy and predictions of a network on examples."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from pencil.data.examples import Examples
from pencil.data.inputs import Inputs
from pencil.data.loader import fetch_batches
from pencil.data.order import span
from pencil.data.prepare import Preparation
from pencil.engine.finite import finite_rows, is_finite
from pencil.engine.parallel import release
from pencil.engine.runtime import Runtime
from pencil.errors import NotFiniteError

BATCH = 512


def predictions(
    model: nn.Module,
    inputs: Inputs,
    indices: Tensor,
    preparation: Preparation,
    runtime: Runtime,
    workers: int = 0,
    passes: int = 0,
) -> Iterator[tuple[Tensor, Tensor]]:
    """(indices (B,), probabilities (B, C) float32 on the CPU), in order. Leaves the network's mode as it found it.

    Of networks ``apart`` they are (B, N, C).

    A rank with fewer than ``passes`` batches runs the network without using the result until it has as many, because
    ranks gather a sharded network together. Predictions that are not finite are left out, and in the end all ranks
    raise ``NotFiniteError``.
    """
    modes = [(module, module.training) for module in model.modules()]  # frozen layers have one of their own
    model.eval()
    bad = 0
    try:
        batches = [batch for batch in indices.split(BATCH) if len(batch)]  # a rank may have none
        for values, batch in fetch_batches(inputs, batches, workers=workers):
            probs = _logits(model, preparation.evaluation(values), runtime).float().softmax(dim=-1).cpu()
            if is_finite(probs):
                yield batch, probs
            else:
                bad += len(batch) - int(finite_rows(probs).sum())
        for _ in range(passes - len(batches)):
            _logits(model, preparation.evaluation(inputs.fetch(torch.tensor([0]))), runtime)
    finally:
        release(model)
        for module, training in modes:
            module.training = training
    _require_none(bad, runtime)


def _require_none(bad: int, runtime: Runtime) -> None:
    count = int(runtime.total(torch.tensor([float(bad)], dtype=torch.float64))[0])
    if count:
        raise NotFiniteError(
            f"the network's predictions for {count:,} examples are not finite: their inputs are too large or not "
            "finite, or the learning rate was too large"
        )


def _logits(model: nn.Module, prepared: Tensor, runtime: Runtime) -> Tensor:
    with torch.no_grad(), runtime.autocast():  # in inference mode FSDP would make buffers no training can use
        logits: Tensor = model(prepared)
    return logits


def equal_passes(num_rows: int, runtime: Runtime) -> int:
    """How many batches the rank with the largest share of these rows has."""
    largest_share = -(-num_rows // runtime.world_size)
    return -(-largest_share // BATCH)


def agreement(
    model: nn.Module, examples: Examples, preparation: Preparation, runtime: Runtime
) -> tuple[float, Tensor]:
    """The share of examples whose prediction is their given label, and the number of predictions of each class (C,).

    The ranks divide the work.
    """
    mine = span(len(examples), runtime.rank, runtime.world_size)
    indices = torch.arange(mine.start, mine.stop)
    labels, num_classes = examples.labels.hard, examples.num_classes
    passes = equal_passes(len(examples), runtime)
    sums = torch.zeros(1 + num_classes, dtype=torch.float64)
    for batch, probs in predictions(model, examples.inputs, indices, preparation, runtime, passes=passes):
        predicted = probs.argmax(dim=1)
        sums[0] += int((predicted == labels[batch]).sum())
        sums[1:] += torch.bincount(predicted, minlength=num_classes)
    sums = runtime.total(sums)
    return float(sums[0]) / len(examples), sums[1:]


def accuracy(model: nn.Module, examples: Examples, preparation: Preparation, runtime: Runtime) -> float:
    """The share of examples whose prediction is their given label; the ranks divide the work."""
    return agreement(model, examples, preparation, runtime)[0]
