"""Add configured noise to labels; trusted labels are unchanged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from pencil.algorithm.transition import cifar10_matrix, circular_matrix, counted_matrix, symmetric_matrix
from pencil.data import (
    Examples,
    instance_dependent_noise,
    mixed_seed,
    read_label_file,
    transition_noise,
)
from pencil.errors import ConfigError, DataError
from pencil.kinds import LabelFile, MatrixNoise, Noise, RateNoise
from pencil.stores import GivenLabels

NOISE = 1  # what draws random numbers, see sources


def noisy_labels(train: Examples, noise: Noise, seed: int) -> GivenLabels:
    """Return the labels with configured noise; trusted labels are unchanged. Soft labels are not supported."""
    if train.labels.values.dim() != 1:
        raise ConfigError(
            "data.noise: needs hard labels, but this data set has soft labels or votes; leave data.noise out"
        )
    noisy = _file_labels(train, noise) if isinstance(noise, LabelFile) else _corrupted(train, noise, seed)
    given = train.labels
    if given.trusted is not None:
        noisy = torch.where(given.trusted, given.values, noisy)
    return GivenLabels.of(noisy, train.num_classes, given.trusted)


def _corrupted(train: Examples, noise: RateNoise | MatrixNoise, seed: int) -> Tensor:
    labels, classes = train.labels.values, train.num_classes
    generator = torch.Generator().manual_seed(mixed_seed(seed if noise.seed is None else noise.seed, NOISE))
    if noise.kind == "instance":
        return instance_dependent_noise(labels, train.inputs, classes, noise.rate, generator)
    return transition_noise(labels, _matrix(noise, classes), generator)


def describe_noise(noise: Noise | None, classes: int) -> str | None:
    """A line for noise that changes fewer labels than its rate: the label that it draws may be the right one."""
    if not isinstance(noise, RateNoise) or noise.kind != "symmetric" or not noise.rate:
        return None
    changed = noise.rate * (classes - 1) / classes
    return (
        f"symmetric noise of {100 * noise.rate:.4g} % over {classes} classes changes about {100 * changed:.1f} % of "
        "the labels: each class is drawn equally often, the right one too"
    )


def noise_matrix(noise: Noise, train: Examples) -> Tensor:
    """T (C, C) of configured noise: its own matrix, or the observed one for noise from a file or by instance."""
    if not isinstance(noise, LabelFile) and noise.kind != "instance":
        return _matrix(noise, train.num_classes)
    assert train.reference is not None, "noise keeps the original labels"
    return counted_matrix(train.reference, train.labels.hard, train.num_classes)


def _matrix(noise: RateNoise | MatrixNoise, classes: int) -> Tensor:
    """T (C, C) of noise that is defined by a matrix."""
    if isinstance(noise, MatrixNoise):
        matrix = torch.tensor(noise.matrix)
        if matrix.shape != (classes, classes):
            raise ConfigError(
                f"data.noise.matrix: {tuple(matrix.shape)} for {classes} classes; make it ({classes}, {classes})"
            )
        return matrix
    if noise.kind == "cifar10" and classes != 10:
        raise ConfigError(
            f"data.noise.kind: 'cifar10' needs CIFAR-10's 10 classes, but the data has {classes}; use another kind"
        )
    if noise.kind == "cifar10":
        return cifar10_matrix(noise.rate)
    return (symmetric_matrix if noise.kind == "symmetric" else circular_matrix)(classes, noise.rate)


def _file_labels(train: Examples, noise: LabelFile) -> Tensor:
    path = Path(noise.path).expanduser()
    labels = read_label_file(path, key=noise.key, ids=train.ids, class_names=train.class_names)
    _check_counted_from_0(labels, train.class_names, path)
    strange = labels[(labels < 0) | (labels >= train.num_classes)]
    if len(strange):
        raise DataError(
            f"data.noise.path: {noise.path} contains the label {int(strange[0])}, but the data's "
            f"{train.num_classes} classes are numbered from 0; fix the file"
        )
    return labels


def _check_counted_from_0(labels: Tensor, names: Sequence[str], path: Path) -> None:
    """Refuse numbers that seem to name classes whose names are numbers above 0, since they would mean other classes.

    A CSV names classes; in other files a label is the place of its class, from 0.
    """
    first = int(names[0]) if names and all(name.isdecimal() for name in names) else 0
    if path.suffix.lower() != ".csv" and len(labels) and 0 < first <= int(labels.min()):
        raise DataError(
            f"data.noise.path: {path} has the labels {int(labels.min())} to {int(labels.max())}, and the data's "
            f"classes are called {names[0]} to {names[-1]}; such a file counts classes from 0: write a CSV with a "
            "column label, which has the names of the classes"
        )
