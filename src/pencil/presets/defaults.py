"""Settings to start from when all there is is data: one for features, one for small images."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar, get_args

from pencil.algorithm import CosineSchedule, Pencil, Phase, three_phases
from pencil.config import RunConfig
from pencil.config.schema import Model, Optimizer, Train
from pencil.data import Augment
from pencil.data.extents import sampled_extents, size_for
from pencil.data.images import Extent
from pencil.errors import PencilError
from pencil.kinds import (
    CifarData,
    DataSection,
    FeaturesData,
    IdxData,
    ImagesData,
    ShardsData,
    TableData,
    TextData,
    kind_of,
)
from pencil.methods import BuiltIn

ImagesSection = TypeVar("ImagesSection", ImagesData, ShardsData)

KNOBS: Mapping[str, Mapping[str, Any]] = {
    "given": {"form": "reference", "pull": 1.0},
    "prototypes": {"form": "printed", "pull": 3.0},
}
"""PENCIL's knobs by what training starts from: the printed loss holds rows to probabilities (see docs/method)."""


def features(path: str) -> RunConfig:
    """A linear head on feature arrays: seconds on a laptop; one setting for every noise rate."""
    return RunConfig(
        data=FeaturesData(kind="features", path=path),
        model=Model(name="linear"),
        method=Pencil(label_rate=1.0, pull=1.0, entropy_weight=0.8),
        phases=three_phases(2, 28, 20, learning_rate=0.02, finetune_rate=0.02),
        optimizer=Optimizer(momentum=0.9, weight_decay=0.005),
        train=Train(batch_size=128),
    )


def text(path: str) -> RunConfig:
    """A linear head on hashed n-grams of texts in a CSV, JSON lines or Parquet file."""
    return features(path).model_copy(update={"data": TextData(kind="text", path=path, embed="ngrams")})


def table(path: str) -> RunConfig:
    """An MLP on the numbers and categories of a CSV, JSON lines or Parquet file."""
    start = features(path)
    return start.model_copy(
        update={
            "data": TableData(kind="table", path=path),
            "model": Model(name="mlp", args={"hidden": [128]}),
            # On a few columns an MLP learns more slowly than a head on features, and must know them before it corrects.
            "phases": three_phases(30, 20, 10, learning_rate=0.02, finetune_rate=0.02),
        }
    )


def cifar10(path: str) -> RunConfig:
    """CIFAR-10 from scratch."""
    return _small_images(CifarData(kind="cifar10", path=path, **_held_out_and_augmented()))


def cifar100(path: str) -> RunConfig:
    """CIFAR-100 from scratch."""
    return _small_images(CifarData(kind="cifar100", path=path, **_held_out_and_augmented()))


def idx(path: str) -> RunConfig:
    """MNIST or Fashion-MNIST from scratch."""
    return _small_images(IdxData(kind="idx", path=path, **_held_out_and_augmented()))


def folder(path: str) -> RunConfig:
    """An image folder from scratch, at 32 to 96 pixels."""
    return _small_images(_sized(ImagesData(kind="folder", path=path, **_held_out_and_augmented())))


def manifest(path: str, columns: Mapping[str, str] | None = None) -> RunConfig:
    """A CSV or Parquet manifest of images from scratch, at 32 to 96 pixels."""
    named = dict(columns or {})
    return _small_images(
        _sized(ImagesData(kind="manifest", path=path, columns=named, **_held_out_and_augmented()))
    )


def shards(path: str) -> RunConfig:
    """Images in tar or Parquet shards from scratch, at 32 to 96 pixels."""
    return _small_images(_sized(ShardsData(kind="shards", path=path, **_held_out_and_augmented())))


def _sized(data: ImagesSection) -> ImagesSection:
    """With a size that suits the images; the smallest one for data that cannot be read, which the run reports."""
    return data.model_copy(update={"size": size_for(_some_extents(data))})


def _some_extents(data: ImagesSection) -> list[Extent]:
    """The sizes of some images. Rows with mistakes do not matter here: the run leaves them out or reports them."""
    if not data.path:  # it is named later, in a grid, whose settings must not depend on the current folder
        return []
    readable = data.model_copy(update={"on_error": "skip"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the run reads the data again, and warns then
        try:
            return sampled_extents(kind_of(data).read(readable, Path(data.path).expanduser()).train.inputs)
        except (PencilError, OSError):
            return []


def _small_images(data: DataSection) -> RunConfig:
    return RunConfig(
        data=data,
        model=Model(name="fast"),
        method=Pencil(label_rate=3.0, pull=1.0, entropy_weight=0.8),
        # Labels are corrected by a network whose learning rate has come down: before that it knows far less. L_c is
        # about K = 10 times cross entropy where labels are nearly hard, so the rates after that are small.
        phases=(
            Phase(name="backbone", epochs=18, learning_rate=CosineSchedule(0.3, 0.003)),
            Phase(name="correction", epochs=4, learning_rate=0.006),
            Phase(name="finetune", epochs=3, learning_rate=CosineSchedule(0.012, 0.0)),
        ),
        plan="auto",
        optimizer=Optimizer(momentum=0.9, weight_decay=5e-4),
        train=Train(batch_size=128, precision="auto", channels_last=True),
    )


def _held_out_and_augmented() -> dict[str, Any]:
    # No crop: images keep the size that they have or are resized to.
    return {"validation": 0.1, "augment": Augment(pad=4, flip=True)}


def start_from(table: dict[str, Any], labels: str, *, own: bool = False) -> None:
    """Set what labels a table of settings starts from, with PENCIL's knobs and epochs that belong to it.

    Args:
        table: The settings, which are changed.
        labels: ``given`` or ``prototypes``.
        own: Whether the settings are the user's: phases, and knobs that differ from the usual ones, stay as they are.
    """
    table["start"] = {**table.get("start", {}), "labels": labels}
    method = table.setdefault("method", {"name": Pencil.name})
    if not _has_knobs(str(method.get("name"))):
        return
    has = {knob: method.get(knob, usual) for knob, usual in KNOBS["given"].items()}
    if labels == "given":
        method |= KNOBS["given"] if has == KNOBS["prototypes"] else {}
        return
    method |= KNOBS["prototypes"] if not own or has == KNOBS["given"] else {}
    if not own:
        _share_epochs(table.get("phases", []))


def _has_knobs(name: str) -> bool:
    """Whether the method of this name has the knobs that depend on what training starts from."""
    kinds = [kind for kind in get_args(BuiltIn) if kind.name == name]
    return any(KNOBS["given"].keys() <= {field.name for field in fields(kind)} for kind in kinds)


def _share_epochs(phases: list[dict[str, Any]]) -> None:
    """Give backbone and correction half of their epochs each, if they have the same learning rate.

    Better labels than the given ones are worth learning for longer before they are corrected (see docs/method).
    """
    first, second = phases[:2] if len(phases) > 1 else ({}, {})
    if (first.get("name"), second.get("name")) != ("backbone", "correction"):
        return
    if first["learning_rate"] == second["learning_rate"]:
        both = first["epochs"] + second["epochs"]
        first["epochs"], second["epochs"] = both // 2, both - both // 2


PRESETS = {
    "features": features,
    "text": text,
    "table": table,
    "cifar10": cifar10,
    "cifar100": cifar100,
    "idx": idx,
    "folder": folder,
    "manifest": manifest,
    "shards": shards,
}
