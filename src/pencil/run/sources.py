"""Examples from a data section: read, corrupt as asked, limit, hold out."""

from __future__ import annotations

import contextlib
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from pencil.config.schema import (
    CifarData,
    Data,
    DatasetData,
    FeaturesData,
    IdxData,
    ImagesData,
    LabelFile,
    MatrixNoise,
    Noise,
    RateNoise,
    ShardsData,
)
from pencil.data import (
    Examples,
    Splits,
    Unlabelled,
    cifar10_matrix,
    circular_matrix,
    instance_dependent_noise,
    leave_out_unreadable,
    mixed_seed,
    read_cifar,
    read_clothing1m,
    read_cub200,
    read_features,
    read_features_alone,
    read_idx,
    read_image_folder,
    read_images_alone,
    read_label_file,
    read_manifest,
    read_paths_alone,
    read_shards,
    symmetric_matrix,
    transition_noise,
)
from pencil.data.checking import Tell
from pencil.errors import ConfigError, DataError, PencilError, RunError
from pencil.imports import import_object
from pencil.machine import fault_of
from pencil.run.trusted import with_trusted
from pencil.stores import GivenLabels

# Parts of a run that draw random numbers of their own, so that changing one leaves the others alone.
NOISE, LIMIT, VALIDATION, PER_CLASS = 1, 2, 3, 4
SHOWN = 5  # rows that cannot be read, told at once


@dataclass(frozen=True)
class Prepared:
    """Examples as a run uses them.

    Validation rows carry given (noisy) labels, as in the paper, unless the source holds out examples of its own.
    ``source`` is the data as its files have it.
    """

    train: Examples
    validation: Examples | None
    test: Examples | None
    source: Splits

    @property
    def skipped(self) -> Mapping[str, int]:
        """Parts of the source that are missing, with their rows."""
        return self.source.skipped

    @property
    def skipped_rows(self) -> Mapping[str, str]:
        """Rows that could not be read, with the reason."""
        return self.source.skipped_rows


def prepare_examples(data: Data, seed: int, tell: Tell = lambda *_: None) -> Prepared:
    """Read the source, lay noise over the training labels, then limit and split by seed.

    ``tell`` hears how far it is where every row is looked at first.
    """
    splits = read_splits(data, tell)
    train = splits.train
    if train.num_classes < 2:
        raise DataError(f"data.path: {data.path} has one class only; there is nothing to tell apart")
    if data.noise is not None:
        train = train.with_labels(noisy_labels(train, data.noise, seed))
    if data.per_class is not None:
        train = train.subset(balanced_indices(train, data.per_class, mixed_seed(seed, PER_CLASS)))
    if data.limit is not None and data.limit < len(train):
        train = train.subset(_shuffled(len(train), mixed_seed(seed, LIMIT))[: data.limit].sort().values)
    if data.ceiling == "clean":
        train = replace(
            train, labels=GivenLabels.of(_truth(train, data), train.num_classes, train.labels.trusted)
        )
    if not data.validation:
        return Prepared(_to_learn(train, data), splits.validation, splits.test, splits)
    order = _shuffled(len(train), mixed_seed(seed, VALIDATION))
    held = round(len(train) * data.validation)
    if held == 0 or held == len(train):
        raise ConfigError(
            f"data.validation: {data.validation} of {len(train)} rows leaves an empty part; "
            "set another share, or 0 to hold out nothing"
        )
    kept, out = order[held:].sort().values, order[:held].sort().values
    return Prepared(_to_learn(train.subset(kept), data), train.subset(out), splits.test, splits)


def _to_learn(train: Examples, data: Data) -> Examples:
    """The rows left to learn from. Trusted labels come last, so that they do not change which rows are drawn."""
    left = _of_ceiling(train, data)
    return left if data.trusted is None else with_trusted(left, data.trusted)


def _of_ceiling(train: Examples, data: Data) -> Examples:
    """For the oracle only the rows whose given label is right; otherwise all. Held-out rows stay as given."""
    if data.ceiling != "oracle":
        return train
    right = (train.labels.hard == _truth(train, data)).nonzero()[:, 0]
    if not len(right):
        raise DataError("data.ceiling: 'oracle', but no given label is right; lower data.noise.rate")
    return train.subset(right)


def _truth(train: Examples, data: Data) -> Tensor:
    if train.reference is None:
        raise ConfigError(
            f"data.ceiling: {data.ceiling!r} needs the true labels, which {data.path} does not tell; set data.noise, "
            "which is laid over them, or leave data.ceiling out"
        )
    return train.reference


def balanced_indices(train: Examples, per_class: int, seed: int) -> Tensor:
    """Indices of as many rows of each given label, drawn by seed, in order. The labels may be wrong."""
    order = _shuffled(len(train), seed)
    labels = train.labels.hard[order]
    counts = labels.bincount(minlength=train.num_classes)
    if int(counts.min()) < per_class:
        rare = int(counts.argmin())
        raise ConfigError(
            f"data.per_class: {per_class}, but only {int(counts[rare])} rows are labelled "
            f"{train.class_names[rare]!r}; set it to at most that"
        )
    by_label = labels.argsort(stable=True)  # the rows of each label together, shuffled among themselves
    place = torch.arange(len(order)) - (counts.cumsum(0) - counts)[labels[by_label]]
    return order[by_label[place < per_class]].sort().values


def read_splits(data: Data, tell: Tell = lambda *_: None) -> Splits:
    """The data set as its files have it; without rows that cannot be read, where that is asked for."""
    with _naming(data) as path:
        splits = _read(data, path)
        if data.on_error == "skip":
            splits = leave_out_unreadable(splits, tell)
            _report(splits)
        return splits


def _report(splits: Splits) -> None:
    if splits.skipped_rows:
        shown = [f"{name}: {reason}" for name, reason in list(splits.skipped_rows.items())[:SHOWN]]
        more = [f"and {len(splits.skipped_rows) - SHOWN:,} more"] if len(splits.skipped_rows) > SHOWN else []
        listed = "\n  ".join([*shown, *more])
        warnings.warn(
            f"{len(splits.skipped_rows):,} rows cannot be read and are left out:\n  {listed}", stacklevel=4
        )


def read_unlabelled(data: Data) -> Unlabelled | None:
    """Rows to predict of a source that has no labels; None of one that has them."""
    with _naming(data) as path:
        match data:
            case FeaturesData(labels=None):
                return read_features_alone(path, data.keys)
            case ImagesData(kind="folder"):
                return read_images_alone(path, data.size, data.channels)
            case ImagesData(kind="manifest"):
                return read_paths_alone(path, data.size, data.channels)
    return None


@contextlib.contextmanager
def _naming(data: Data) -> Iterator[Path]:
    """The data's path, which must be there; whatever is wrong with its content, the message names it."""
    path = Path(data.path).expanduser()
    if not isinstance(data, DatasetData) and not path.exists():
        raise DataError(
            f"data.path: {data.path!r} does not exist{'' if path.is_absolute() else f' in {Path.cwd()}'}; "
            "give the file or folder of the data set"
        )
    try:
        yield path
    except DataError as error:
        if path.name in str(error):
            raise
        raise DataError(f"{data.path}: {error}") from error


def _read(data: Data, path: Path) -> Splits:
    match data:
        case FeaturesData():
            return _features(data, path)
        case CifarData():
            label: Literal["coarse", "fine"] = "coarse" if data.coarse else "fine"
            return read_cifar(path, num_classes=10 if data.kind == "cifar10" else 100, label=label)
        case IdxData():
            return read_idx(path, data.class_names)
        case ImagesData(kind="manifest"):
            return read_manifest(path, size=data.size, channels=data.channels, on_error=data.on_error)
        case ImagesData():
            return _IMAGES[data.kind](path, size=data.size, channels=data.channels)
        case ShardsData():
            return read_shards(
                path,
                size=data.size,
                channels=data.channels,
                missing=data.missing_shards,
                cache=data.cache,
                cache_bytes=data.cache_bytes,
            )
        case DatasetData():
            return _call(data)


_IMAGES: Mapping[str, Callable[..., Splits]] = {
    "folder": read_image_folder,
    "cub200": read_cub200,
    "clothing1m": read_clothing1m,
}


def _features(data: FeaturesData, path: Path) -> Splits:
    if path.suffix == ".npy" and data.labels is None:
        raise DataError(f"data.labels: missing; {path} holds features alone: --set data.labels=FILE")
    labels = None if data.labels is None else Path(data.labels).expanduser()
    return read_features(path, labels=labels, keys=data.keys, on_error=data.on_error)


def noisy_labels(train: Examples, noise: Noise, seed: int) -> GivenLabels:
    """The labels with noise as configured, trusted ones left alone; soft labels cannot be corrupted this way."""
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


def noise_matrix(noise: Noise, train: Examples) -> Tensor:
    """T (C, C) of configured noise: its own, or, where it has none (from a file, by instance), as it came out."""
    if not isinstance(noise, LabelFile) and noise.kind != "instance":
        return _matrix(noise, train.num_classes)
    assert train.reference is not None, "noise keeps the labels it was made from"
    identity = torch.eye(train.num_classes, dtype=torch.float64)
    counts = identity[train.reference].T @ identity[train.labels.hard]
    total = counts.sum(dim=1, keepdim=True)
    return torch.where(
        total > 0, counts / total.clamp_min(1), identity
    )  # a class without rows keeps its name


def _matrix(noise: RateNoise | MatrixNoise, classes: int) -> Tensor:
    """T (C, C) of noise that is made by one."""
    if isinstance(noise, MatrixNoise):
        matrix = torch.tensor(noise.matrix)
        if matrix.shape != (classes, classes):
            raise ConfigError(
                f"data.noise.matrix: {tuple(matrix.shape)} for {classes} classes; it must be square"
            )
        return matrix
    if noise.kind == "cifar10" and classes != 10:
        raise ConfigError(f"data.noise.kind: 'cifar10' maps CIFAR-10's classes, but the data has {classes}")
    if noise.kind == "cifar10":
        return cifar10_matrix(noise.rate)
    return (symmetric_matrix if noise.kind == "symmetric" else circular_matrix)(classes, noise.rate)


def _file_labels(train: Examples, noise: LabelFile) -> Tensor:
    path = Path(noise.path).expanduser()
    labels = read_label_file(path, key=noise.key, ids=train.ids, class_names=train.class_names)
    strange = labels[(labels < 0) | (labels >= train.num_classes)]
    if len(strange):
        raise DataError(
            f"data.noise.path: {noise.path} holds the label {int(strange[0])}, but the data's "
            f"{train.num_classes} classes are numbered from 0; fix the file"
        )
    return labels


def _call(data: DatasetData) -> Splits:
    function = import_object(data.path, field="data.path")
    with users_code("data.path", data.path):
        splits = function(**data.args)
    if not isinstance(splits, Splits):
        raise ConfigError(
            f"data.path: {data.path} returned {type(splits).__name__}; it must return pencil.data.Splits"
        )
    return splits


@contextlib.contextmanager
def users_code(field: str, path: str) -> Iterator[None]:
    """Whatever a user's own code raises, as a ``ConfigError`` that says where."""
    try:
        yield
    except PencilError:
        raise
    except Exception as error:  # a user's code may fail in any way
        if words := fault_of(error):
            raise RunError(f"{field} = {path!r}: {words}") from error
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = "" if last.filename == __file__ else f" (in {Path(last.filename).name}, line {last.lineno})"
        raise ConfigError(
            f"{field} = {path!r} fails with {type(error).__name__}: {error}{where}; fix that code or its args"
        ) from error


def _shuffled(count: int, seed: int) -> Tensor:
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed))
