"""The features of a training that estimates are computed from: inputs that are vectors, or those of its network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

from pencil.algorithm import Phase, backbone_epochs
from pencil.data import Inputs
from pencil.engine import Training, network_features, network_scores
from pencil.estimates import Passes
from pencil.stores import DenseStore, choose_store, free_memory

BATCH = 4096
EARLY = 4  # the part of the backbone phase after which a network's features are used


def has_vectors(training: Training) -> bool:
    """Whether the inputs are vectors of real numbers, which serve as features."""
    return training.runtime.any_of(len(training.train) > 0 and is_vector(training.train.inputs))[0]


def is_vector(inputs: Inputs) -> bool:
    """Whether the inputs are vectors of real numbers."""
    first = inputs.fetch(torch.tensor([0]))
    return first.dim() == 2 and first.is_floating_point()


def early_epoch(phases: Sequence[Phase]) -> int:
    """The number of epochs after which the network's features are used: a quarter of the backbone phase, at least 1."""
    return max(1, -(-backbone_epochs(phases) // EARLY))


def passes_over_inputs(training: Training) -> Passes:
    """Passes over the inputs of this rank, which are vectors."""
    inputs = training.train.inputs

    def passes() -> Iterator[tuple[Tensor, Tensor]]:
        for places in torch.arange(len(training.train)).split(BATCH):
            yield places, inputs.fetch(places)

    return passes


def passes_over_features(training: Training, folder: Path | None = None) -> Passes:
    """Passes over the network's features as they are now, which are computed once and kept.

    Args:
        training: The training; every rank takes part.
        folder: Where features go that do not fit into memory; None for the system's folder of temporary files.
    """
    return _kept(training, network_features(training), folder)


def passes_over_scores(training: Training, folder: Path | None = None) -> Passes:
    """Passes over the network's log-probabilities as they are now, as over features."""
    return _kept(training, network_scores(training), folder)


def _kept(training: Training, batches: Iterable[tuple[Tensor, Tensor]], folder: Path | None) -> Passes:
    kept: DenseStore | None = None
    for batch, values in batches:
        if kept is None:
            width = values.shape[1]
            rows = len(training.train)
            store = choose_store(rows, width, can_cut=False, memory=free_memory()).make(rows, width, folder)
            assert isinstance(store, DenseStore)
            kept = store
        kept.scatter(batch, values)

    def passes() -> Iterator[tuple[Tensor, Tensor]]:
        if kept is None:  # a rank without rows
            return
        for places in torch.arange(kept.num_rows).split(BATCH):
            yield places, kept.gather(places)

    return passes
