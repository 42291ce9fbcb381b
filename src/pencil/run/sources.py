"""Examples from a data section: read, corrupt as asked, limit, hold out."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from pencil.data import (
    Examples,
    Splits,
    Unlabelled,
    leave_out_unreadable,
    mixed_seed,
)
from pencil.data.checking import Progress, leave_out_unreadable_alone
from pencil.errors import ConfigError, DataError
from pencil.kinds import DataSection, LabelFile, kind_of
from pencil.run.noise import noisy_labels
from pencil.run.trusted import Verified, with_trusted
from pencil.stores import GivenLabels

# Parts of a run that draw random numbers of their own, so that changing one leaves the others alone.
LIMIT, VALIDATION, PER_CLASS = 2, 3, 4  # 1 is the noise
LEAST_PER_CLASS = 2  # rows, below which a warning says that there are too few
SHOWN = 5  # rows that cannot be read, in one message


@dataclass(frozen=True)
class Prepared:
    """Examples as a run uses them.

    Validation rows carry given (noisy) labels, as in the paper, unless the source holds out examples of its own.
    ``source`` is the data as its files have it. ``encoder`` is the mark of the encoder whose features replaced the
    inputs, see ``data.embed``. ``verified`` are the labels of ``data.trusted``.
    """

    train: Examples
    validation: Examples | None
    test: Examples | None
    source: Splits
    encoder: str | None = None
    verified: Verified | None = None

    @property
    def skipped(self) -> Mapping[str, int]:
        """Parts of the source that are missing, with their rows."""
        return self.source.skipped

    @property
    def skipped_rows(self) -> Mapping[str, str]:
        """Rows that could not be read, with the reason."""
        return self.source.skipped_rows


def prepare_examples(data: DataSection, seed: int, progress: Progress = lambda *_: None) -> Prepared:
    """Read the source, add noise to the training labels, then limit and split by seed.

    ``progress`` is called with the progress where every row is checked first.
    """
    splits = read_splits(data, progress)
    train = splits.train
    _check_classes(train, data)
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
        learned, verified = _to_learn(train, data)
        return Prepared(learned, splits.validation, splits.test, splits, verified=verified)
    order = _shuffled(len(train), mixed_seed(seed, VALIDATION))
    held = round(len(train) * data.validation)
    if held == 0 or held == len(train):
        raise ConfigError(
            f"data.validation: {data.validation} of {len(train)} rows leaves an empty part; "
            "set another share, or 0 to hold out nothing"
        )
    kept, out = order[held:].sort().values, order[:held].sort().values
    learned, verified = _to_learn(train.subset(kept), data)
    return Prepared(learned, train.subset(out), splits.test, splits, verified=verified)


def _check_classes(train: Examples, data: DataSection) -> None:
    if train.num_classes < 2:
        raise DataError(f"data.path: {data.path} has one class only; give data with at least two")


def warn_of_few_rows(train: Examples, path: str) -> None:
    """Warn where a run begins with fewer rows than can show which labels are wrong."""
    if len(train) < LEAST_PER_CLASS * train.num_classes:
        warnings.warn(
            f"{path}: {len(train)} rows are too few for {train.num_classes} classes to find wrong labels",
            stacklevel=3,
        )


def _to_learn(train: Examples, data: DataSection) -> tuple[Examples, Verified | None]:
    """The rows left to learn from, and verified labels, which come last: they do not change which rows are drawn."""
    left = _of_ceiling(train, data)
    return (left, None) if data.trusted is None else with_trusted(left, data.trusted)


def _of_ceiling(train: Examples, data: DataSection) -> Examples:
    """For the oracle only the rows whose given label is right; otherwise all. Held-out rows stay as given."""
    if data.ceiling != "oracle":
        return train
    right = (train.labels.hard == _truth(train, data)).nonzero()[:, 0]
    if not len(right):
        raise DataError("data.ceiling: 'oracle', but no given label is right; lower data.noise.rate")
    return train.subset(right)


def _truth(train: Examples, data: DataSection) -> Tensor:
    if train.reference is None:
        raise ConfigError(
            f"data.ceiling: {data.ceiling!r} needs the true labels, which {data.path} does not have; set data.noise, "
            "which keeps the labels it replaces, or leave data.ceiling out"
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


def read_splits(data: DataSection, progress: Progress = lambda *_: None) -> Splits:
    """The data set as stored in its files; without unreadable rows if ``data.on_error`` is "skip"."""
    with _naming(data) as path:
        splits = kind_of(data).read(data, path)
        if data.on_error == "skip":
            splits = leave_out_unreadable(splits, progress)
            _report(splits.skipped_rows)
        return splits


def resolve_data(data: DataSection) -> DataSection:
    """The settings with those filled in that depend on the data, such as how columns of a table become features."""
    kind = kind_of(data)
    if kind.resolve is None:
        return data
    with _naming(data) as path:
        return kind.resolve(data, path)


def describe_data(data: DataSection) -> str | None:
    """A line about how resolved settings read the data; None for data that needs no word."""
    kind = kind_of(data)
    return None if kind.describe is None else kind.describe(data, Path(data.path).expanduser())


def check_apart(option: str, out: Path, data: DataSection) -> None:
    """Check that a file to write is not one that the data is read from."""
    files = {"data.path": data.path, "data.labels": getattr(data, "labels", None)}
    files["data.trusted.path"] = None if data.trusted is None else data.trusted.path
    files["data.noise.path"] = data.noise.path if isinstance(data.noise, LabelFile) else None
    for field, path in files.items():
        if path is not None and out.resolve() == Path(path).expanduser().resolve():
            raise ConfigError(f"{option} {out}: that is the data itself ({field}); choose another place")


def _report(skipped: Mapping[str, str]) -> None:
    if skipped:
        shown = [f"{name}: {reason}" for name, reason in list(skipped.items())[:SHOWN]]
        more = [f"and {len(skipped) - SHOWN:,} more"] if len(skipped) > SHOWN else []
        listed = "\n  ".join([*shown, *more])
        warnings.warn(f"{len(skipped):,} rows cannot be read and are left out:\n  {listed}", stacklevel=4)


def read_unlabelled(data: DataSection) -> Unlabelled | None:
    """Rows to predict from a source without labels; None for a source that has them.

    Without unreadable rows if ``data.on_error`` is "skip".
    """
    read = kind_of(data).read_unlabelled
    if read is None:
        return None
    with _naming(data) as path:
        found = read(data, path)
        if found is not None and not len(found.ids):
            raise DataError("there is no row to predict; give a file with rows")
        if found is not None and data.on_error == "skip":
            found = leave_out_unreadable_alone(found)
            _report(found.skipped_rows)
        return found


@contextlib.contextmanager
def _naming(data: DataSection) -> Iterator[Path]:
    """The data's path, which must exist; every error about its content names it."""
    path = Path(data.path).expanduser()
    if not kind_of(data).is_code and not path.exists():
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


def _shuffled(count: int, seed: int) -> Tensor:
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed))
