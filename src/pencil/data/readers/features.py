"""Feature arrays in ``.npz`` or ``.npy`` files, as other tools write them.

N: rows. D: features. C: classes.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pencil.data.arrays import as_tensor, load_array, npz_keys
from pencil.data.examples import Examples, RowNumbers, Splits, SubsetNames, Unlabelled
from pencil.data.inputs import TensorInputs
from pencil.data.label_files import read_label_file
from pencil.data.readers.feature_classes import Arrays, missing_labels, name_classes, texts_of
from pencil.data.tables import listed
from pencil.errors import DataError
from pencil.stores import GivenLabels

FEATURE_ROLES: Mapping[str, tuple[str, ...]] = {
    "features": ("feat", "features", "X", "train", "train_features", "X_train"),
    "labels": ("labels", "y", "train_labels", "y_train"),
    "test_features": ("test", "test_features", "X_test"),
    "test_labels": ("test_labels", "y_test"),
    "is_train": ("is_train",),
    "names": ("names", "class_names"),
    "ids": ("files", "ids", "train_ids"),
    "test_ids": ("test_files", "test_ids"),
}
"""What an array can be, and the names under which it is looked for in an ``.npz``."""

_LABELLED = ("labels", "test_features", "test_labels", "is_train")
"""Roles that only a labelled data set has."""

_LEAST_SIDE = 8
"""Smaller arrays are not pictures."""
_BLOCK = 65536
"""Rows checked at once, so that a mapped file larger than memory is never held whole."""


def read_features(
    path: str | Path,
    *,
    labels: str | Path | None = None,
    keys: Mapping[str, str] | None = None,
    on_error: Literal["error", "skip"] = "error",
) -> Splits:
    """Read features and labels; features keep their type.

    Args:
        path: An ``.npz``, or an ``.npy`` of features (N, D) that all serve for training.
        labels: A label file for the features' rows, in their order, or by id if it is a ``.csv`` with ids. An ``.npy``
            of features needs it; for an ``.npz`` it takes the place of the labels inside.
        keys: For an ``.npz`` whose arrays have names of their own: role to array name. The roles are those of
            ``FEATURE_ROLES``; an empty name leaves a role out.
        on_error: "error": features or labels that are NaN or infinite, and labels that are empty texts or nan, raise an
            error; "skip": their rows are left out and listed in ``skipped_rows``.

    Returns:
        Train and, where there is one, test split: the test arrays, or the rows where is_train is false.
    """
    path = Path(path)
    arrays = _read_arrays(path, dict(keys or {}), own_labels=labels is None)
    if labels is not None:
        arrays["labels"] = _labels_beside(labels, arrays, path)
    skipped = _leave_out(arrays, path) if on_error == "skip" else {}
    names = name_classes(arrays, path)
    whole = _examples(arrays, "", names, path)
    if "is_train" in arrays:
        return replace(_split(whole, arrays["is_train"], path), skipped_rows=skipped)
    test = _examples(arrays, "test_", names, path) if "test_features" in arrays else None
    return Splits(whole, test, skipped_rows=skipped)


def _labels_beside(labels: str | Path, arrays: Arrays, path: Path) -> NDArray[Any]:
    """The labels of a file, in the order of the features' ids and by their class names, if there are any."""
    names = texts_of(arrays["names"], f"{path}: names") if "names" in arrays else None
    ids = _ids(arrays, "", len(np.atleast_1d(arrays["features"])), path)
    return read_label_file(labels, ids=ids, class_names=names).numpy()


def read_features_alone(
    path: Path, keys: Mapping[str, str] | None = None, on_error: Literal["error", "skip"] = "error"
) -> Unlabelled | None:
    """Features (N, D) of an ``.npy``, or of an ``.npz`` without labels and splits; None for other files."""
    if path.suffix.lower() == ".npz":
        found, asked = npz_keys(path), dict(keys or {})
        labelled = [name for role in _LABELLED for name in (asked.get(role), *FEATURE_ROLES[role])]
        chosen = {role: _choose(found, role, asked.get(role), path) for role in ("features", "ids")}
        if not chosen["features"] or set(labelled) & set(found):
            return None
        arrays = {role: load_array(path, key) for role, key in chosen.items() if key}
    elif path.suffix.lower() == ".npy":
        arrays = {"features": load_array(path)}
    else:
        return None
    skipped = _leave_out(arrays, path) if on_error == "skip" else {}
    if skipped and not len(arrays["features"]):
        raise DataError(f"{path}: no row can be used; the first {next(iter(skipped.values()))}")
    values = _features(arrays, "", path)
    return Unlabelled(TensorInputs(values), _ids(arrays, "", len(values), path), skipped_rows=skipped)


def _read_arrays(path: Path, keys: dict[str, str], *, own_labels: bool) -> Arrays:
    """Arrays by role."""
    if path.suffix.lower() == ".npz":
        return _read_npz(path, keys, own_labels=own_labels)
    if path.suffix.lower() != ".npy":
        raise DataError(f"{path}: cannot read features from {path.suffix!r}; use .npz or .npy")
    if own_labels:
        raise DataError(f"{path}: an .npy holds features alone; give labels=<a file with a label per row>")
    if keys:
        raise DataError(f"{path}: an .npy has no arrays to choose from; leave out data.keys")
    return {"features": load_array(path)}


def _read_npz(path: Path, keys: dict[str, str], *, own_labels: bool) -> Arrays:
    found = npz_keys(path)
    unknown = sorted(set(keys) - set(FEATURE_ROLES))
    if unknown:
        raise DataError(f"keys: unknown role {', '.join(unknown)}; roles are {', '.join(FEATURE_ROLES)}")
    chosen = {role: _choose(found, role, keys.get(role), path) for role in FEATURE_ROLES}
    if not own_labels:
        chosen["labels"] = None
    _check_complete(chosen, found, path, own_labels=own_labels)
    return {role: load_array(path, key) for role, key in chosen.items() if key}


def _choose(found: list[str], role: str, asked: str | None, path: Path) -> str | None:
    """The array for a role; it is an error if two fit."""
    if asked:
        if asked not in found:
            raise DataError(f"{path}: no array {asked!r} for {role}; found {listed(found)}")
        return asked
    fitting = [key for key in FEATURE_ROLES[role] if key in found and asked is None]
    if len(fitting) > 1:
        raise DataError(
            f"{path}: {' and '.join(fitting)} could all be the {role}; "
            f"choose with data.keys.{role} = {fitting[0]!r}"
        )
    return fitting[0] if fitting else None


def _check_complete(
    chosen: Mapping[str, str | None], found: list[str], path: Path, *, own_labels: bool
) -> None:
    needed = ["features", "labels"] if own_labels else ["features"]
    if chosen["test_features"] or chosen["test_labels"]:
        needed += ["test_features", "test_labels"]
    missing = [role for role in needed if not chosen[role]]
    if missing:
        expected = "; ".join(f"for {role} one of {', '.join(FEATURE_ROLES[role])}" for role in missing)
        raise DataError(
            f"{path}: found the arrays {listed(found)}; expected {expected}. "
            f"Name another array with data.keys.{missing[0]} = NAME"
        )
    if chosen["is_train"] and chosen["test_features"]:
        raise DataError(
            f"{path}: both {chosen['is_train']} and {chosen['test_features']} say what to test on; "
            "leave one out: data.keys.is_train = '', or data.keys.test_features = '' and data.keys.test_labels = ''"
        )


def _leave_out(arrays: Arrays, path: Path) -> dict[str, str]:
    """Remove rows that are not finite or have no label; returns them with the reason."""
    return _leave_out_of("", arrays, path) | _leave_out_of("test_", arrays, path)


def _leave_out_of(split: str, arrays: Arrays, path: Path) -> dict[str, str]:
    """The same for one split. The role "good" says which rows stay; ids are those of all rows."""
    roles = [f"{split}{role}" for role in ("features", "labels", "ids")] + ([] if split else ["is_train"])
    present = [role for role in roles if role in arrays]
    if f"{split}features" not in present or len({arrays[role].shape[:1] for role in present}) > 1:
        return {}  # there is no such split, or its arrays do not fit, which is reported where they are checked
    bad = _bad_rows(split, arrays, path)
    if bad:
        good = ~np.isin(np.arange(len(arrays[f"{split}features"])), list(bad))
        arrays |= {role: arrays[role][good] for role in present if role != f"{split}ids"}
        arrays[f"{split}good"] = good
    return {f"{split}row {row}": reason for row, reason in sorted(bad.items())}


def _bad_rows(split: str, arrays: Arrays, path: Path) -> dict[int, str]:
    """What is wrong with each row that cannot be used."""
    checked = [role for role in (f"{split}features", f"{split}labels") if role in arrays]
    bad = [row for role in checked for row in np.flatnonzero(~_finite_rows(arrays[role])).tolist()]
    missing = missing_labels(arrays, f"{split}labels", path) if f"{split}labels" in arrays else []
    return dict.fromkeys(bad, "holds NaN or infinity") | dict.fromkeys(missing, "has no label")


def _finite_rows(array: NDArray[Any]) -> NDArray[np.bool_]:
    """(N,) whether all numbers of a row are finite; arrays that are not numbers are checked elsewhere."""
    if array.dtype.kind != "f" or not array.ndim:
        return np.ones(array.shape[:1], bool)
    blocks = [array[start : start + _BLOCK] for start in range(0, len(array), _BLOCK)]
    good = [np.isfinite(block.reshape(len(block), -1)).all(axis=1) for block in blocks]
    return np.concatenate(good) if good else np.ones(0, bool)


def _examples(arrays: Arrays, split: str, names: tuple[str, ...], path: Path) -> Examples:
    """One split; its roles begin with ``split``, "" or "test_"."""
    values, labels = _features(arrays, split, path), arrays[f"{split}labels"]
    if labels.ndim not in (1, 2) or len(labels) != len(values):
        raise DataError(
            f"{path}: {split}labels must be (N,) or (N, C) with N = {len(values)}, found shape {labels.shape}; "
            "save a label per row"
        )
    try:
        given = GivenLabels.of(as_tensor(labels, f"{path}: {split}labels"), len(names))
    except DataError as error:
        raise error if str(path) in str(error) else DataError(f"{path}: {error}") from error
    return Examples(TensorInputs(values), given, names, _ids(arrays, split, len(values), path))


def _features(arrays: Arrays, split: str, path: Path) -> Tensor:
    """Features (N, D), checked."""
    values = as_tensor(arrays[f"{split}features"], f"{path}: {split}features")
    if values.dim() < 2 or not values.numel():
        raise DataError(
            f"{path}: {split}features must be (N, D) with N > 0, found shape {tuple(values.shape)}; save a row "
            "per example"
        )
    if values.is_complex():
        raise DataError(f"{path}: {split}features are complex numbers; save real ones")
    _check_finite(values, f"{path}: {split}features")
    return _as_images(values, f"{path}: {split}features")


def _as_images(values: Tensor, what: str) -> Tensor:
    """Arrays (N, H, W) of pictures as images with one channel; others as they are."""
    if values.dim() != 3 or min(values.shape[1:]) < _LEAST_SIDE:
        return values
    warnings.warn(
        f"{what} {tuple(values.shape)} are read as grey images, and each pixel is a feature; for a network for images: "
        "--set model.name=small_cnn",
        stacklevel=5,
    )
    return values[:, None]


def _ids(arrays: Arrays, split: str, rows: int, path: Path) -> Sequence[str]:
    role, good = f"{split}ids", arrays.get(f"{split}good")
    total = rows if good is None else len(good)
    ids = texts_of(arrays[role], f"{path}: {role}") if role in arrays else RowNumbers(total)
    if len(ids) != total:
        raise DataError(f"{path}: {len(ids)} {role} for {rows} rows of {split}features; save one per row")
    return ids if good is None else SubsetNames(ids, torch.from_numpy(good).nonzero()[:, 0])


def _check_finite(values: Tensor, what: str) -> None:
    if not values.is_floating_point():
        return
    for start in range(0, len(values), _BLOCK):
        good = torch.isfinite(values[start : start + _BLOCK].flatten(1)).all(dim=1)
        if not bool(good.all()):
            row = start + int((~good).nonzero()[0])
            raise DataError(
                f"{what} hold NaN or infinity, first in row {row}; fix such rows, or leave them out: "
                "--set data.on_error=skip"
            )


def _split(whole: Examples, is_train: NDArray[Any], path: Path) -> Splits:
    """Rows where is_train is true, and the others. Ids stay those of the file."""
    if is_train.shape != (len(whole),) or is_train.dtype.kind not in "biuf":
        raise DataError(
            f"{path}: is_train must be ({len(whole)},) of 0 and 1, found {is_train.dtype} {is_train.shape}; "
            "save one per row"
        )
    if not bool(np.isin(is_train, (0, 1)).all()) or not is_train.any():
        raise DataError(
            f"{path}: is_train must hold 0 and 1 with at least one 1, found {np.unique(is_train)[:5]}; fix it"
        )
    mask = torch.from_numpy(is_train.astype(bool))
    train, test = mask.nonzero()[:, 0], (~mask).nonzero()[:, 0]
    return Splits(whole.subset(train), whole.subset(test) if len(test) else None)
