"""RunConfig: everything that decides a run, as frozen sections; TOML in and out.

Methods, phases, schedules and augmentation are the very dataclasses the rest of the package uses: there is no
second description of them here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from pencil.algorithm import Pencil, Phase
from pencil.algorithm.checks import LARGEST, require
from pencil.config.explain import explain
from pencil.config.toml import INTEGERS, from_toml, to_toml
from pencil.data.augment import Augment
from pencil.data.noise import ROW_TOLERANCE
from pencil.data.sampler import WINDOW
from pencil.data.shards.inputs import CACHE_BYTES
from pencil.errors import ConfigError
from pencil.methods import BuiltIn
from pencil.reading import MB, read_text
from pencil.results.judged import VerdictRule
from pencil.stores.choice import GRAMMAR as STORES

SETTINGS_BYTES = (
    2 * MB
)  # room for a transition matrix of 300 classes; more would take the reader half a minute
Seed = Annotated[int, Field(ge=-INTEGERS, lt=INTEGERS)]


class Section(BaseModel):
    """A part of the configuration: frozen, and refusing fields it does not know and numbers that are not finite."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class RateNoise(Section):
    """Seeded noise of one rate: ``symmetric`` and ``circular`` for any classes, ``cifar10``'s map, ``instance``."""

    kind: Literal["symmetric", "circular", "cifar10", "instance"]
    rate: float = Field(ge=0, le=1, description="the share of labels that become wrong")
    seed: Seed | None = Field(default=None, description="the run's seed where absent")


class MatrixNoise(Section):
    """Noise by a transition matrix: row i holds the probabilities of each label where i is true."""

    kind: Literal["matrix"]
    matrix: tuple[tuple[float, ...], ...] = Field(description="rows that sum to 1, one for each class")
    seed: Seed | None = Field(default=None, description="the run's seed where absent")

    @field_validator("matrix")
    @classmethod
    def _distributions(cls, matrix: tuple[tuple[float, ...], ...]) -> tuple[tuple[float, ...], ...]:
        for number, row in enumerate(matrix):
            square = len(row) == len(matrix)
            fits = square and all(share >= 0 for share in row) and abs(sum(row) - 1) <= ROW_TOLERANCE
            demand = f"must be {len(matrix)} numbers that are not negative and sum to 1"
            require(fits, f"row {number}", row, demand)
        return matrix


class LabelFile(Section):
    """Labels from a file laid over the data set's own, such as CIFAR-N's."""

    kind: Literal["file"]
    path: str = Field(description="a .npy, .npz, .csv, .txt or .pt with a label for each training row")
    key: str | None = Field(default=None, description="which array of the file, where it has several")


Noise = Annotated[RateNoise | MatrixNoise | LabelFile, Field(discriminator="kind")]


class TrustedLabels(Section):
    """Labels that somebody made sure of: they replace the given ones and never move; dropped rows are left out."""

    path: str = Field(description="a reviewed run, or a .csv with the columns id and label")
    entry: int | None = Field(
        default=None,
        ge=0,
        description="of a reviewed run: the entry of its history to stop at; None: the last when training begins",
    )


class DataSection(Section):
    """What every data source may say besides where it is."""

    path: str = Field(
        description="the file or folder; of shards what pencil index wrote; of your own the function"
    )
    noise: Noise | None = Field(
        default=None, description="made from the labels read; files are never touched"
    )
    validation: float = Field(
        default=0.0, ge=0, lt=1, description="share of the training rows held out, noisy too"
    )
    trusted: TrustedLabels | None = Field(
        default=None, description="labels that somebody made sure of, by id"
    )
    per_class: int | None = Field(
        default=None, ge=1, description="train on this many rows of each given label, drawn by seed"
    )
    limit: int | None = Field(default=None, ge=1, description="train on this many rows, drawn by seed")
    on_error: Literal["error", "skip"] = Field(
        default="error",
        description="skip: look at every row first, and go on without those that cannot be read",
    )
    normalize: Literal["auto", "mean", "none"] = Field(
        default="auto", description="auto: remove mean and deviation; mean: remove the mean only"
    )
    augment: Augment | None = Field(default=None, description="random crops and flips of training images")
    ceiling: Literal["clean", "oracle"] | None = Field(
        default=None,
        description="to compare with: train on the true labels, or only on rows whose given label is right",
    )


class FeaturesData(DataSection):
    """Feature arrays, .npz or .npy."""

    kind: Literal["features"]
    labels: str | None = Field(default=None, description=".npy of labels, where path is an .npy of features")
    keys: dict[str, str] = Field(
        default_factory=dict, description="arrays of an .npz by role, where they have names of their own"
    )


class CifarData(DataSection):
    """CIFAR-10 or CIFAR-100 in the official binary or python layout."""

    kind: Literal["cifar10", "cifar100"]
    coarse: bool = Field(default=False, description="CIFAR-100's 20 superclasses in place of its 100 classes")


class IdxData(DataSection):
    """MNIST's and Fashion-MNIST's IDX files."""

    kind: Literal["idx"]
    class_names: tuple[str, ...] | None = Field(
        default=None, description="what the classes are called; None: 0, 1, ..."
    )


class ImagesData(DataSection):
    """Image files: a folder per class, a CSV or Parquet manifest, CUB-200-2011 or Clothing1M as published.

    A manifest has columns path, label, split, votes, trusted.
    """

    kind: Literal["folder", "manifest", "cub200", "clothing1m"]
    size: int | None = Field(
        default=None, ge=1, description="resize to size × size; None: as they are, all alike"
    )
    channels: Literal[1, 3] = Field(default=3, description="3: colour; 1: grey")


class ShardsData(DataSection):
    """Tar or Parquet shards, local or remote; path is the folder that pencil index wrote."""

    kind: Literal["shards"]
    size: int | None = Field(
        default=None, ge=1, description="resize images to size × size; None: as they are, all alike"
    )
    channels: Literal[1, 3] = Field(default=3, description="3: colour; 1: grey")
    window: int = Field(default=WINDOW, ge=1, description="shards whose rows are shuffled together")
    missing_shards: Literal["error", "skip"] = Field(
        default="error", description="skip: go on without the rows of shards that are missing or cut off"
    )
    cache: str | None = Field(
        default=None, description="folder for remote shards; None: the user's cache folder"
    )
    cache_bytes: int = Field(default=CACHE_BYTES, ge=1, description="how much remote shards may take there")


class DatasetData(DataSection):
    """Your own: path names a function, ``package.module:function``, that returns pencil.data.Splits."""

    kind: Literal["python"]
    args: dict[str, Any] = Field(default_factory=dict, description="arguments of the function")


Data = Annotated[
    FeaturesData | CifarData | IdxData | ImagesData | ShardsData | DatasetData, Field(discriminator="kind")
]


class Model(Section):
    """The backbone: a built-in name, torchvision:NAME, timm:NAME, or your own package.module:factory."""

    name: str = Field(description="as above; pencil train tells the names it knows where this one is unknown")
    args: dict[str, Any] = Field(
        default_factory=dict, description="arguments of the network, such as its width"
    )


class Optimizer(Section):
    """The network's optimiser; its learning rate belongs to the phases."""

    name: Literal["sgd", "adamw"] = Field(default="sgd", description="which optimiser")
    momentum: float = Field(default=0.9, ge=0, lt=1, description="SGD's; AdamW keeps torch's defaults")
    nesterov: bool = Field(default=False, description="SGD's momentum after Nesterov")
    weight_decay: float = Field(default=1e-4, ge=0, le=LARGEST, description="of all weights, biases included")


class Train(Section):
    """How the loop runs."""

    batch_size: int = Field(
        default=128, ge=1, description="examples per optimiser step, of all ranks together"
    )
    accumulate: int = Field(
        default=1, ge=1, description="split each batch into this many passes to save memory"
    )
    evaluate_every: int = Field(
        default=1, ge=1, description="epochs between evaluations; the last always is one"
    )
    device: str = Field(default="auto", description="cpu, cuda, cuda:0; auto: a GPU where there is one")
    parallel: Literal["ddp", "fsdp"] = Field(
        default="ddp", description="several ranks: each holds the network, or only a shard of it"
    )
    precision: Literal["auto", "fp32", "bf16"] = Field(
        default="fp32", description="the network's arithmetic; auto: bf16 where the hardware has it"
    )
    channels_last: bool = Field(default=False, description="that memory format; faster for most images")
    compile: bool = Field(default=False, description="torch.compile: slower to start, faster from then on")
    workers: int = Field(default=0, ge=0, description="processes that read examples ahead")
    timeout_seconds: float = Field(
        default=120.0,
        ge=1,
        le=86_400,
        description="several hosts: how long one may be unreachable until it counts as lost",
    )
    tensorboard: bool = Field(default=False, description="write event files into the run's folder")
    mlflow: bool = Field(default=False, description="track in MLflow: files, or MLFLOW_TRACKING_URI")
    wandb: bool = Field(
        default=False, description="track in Weights & Biases, offline unless WANDB_MODE is set"
    )


class Checkpoint(Section):
    """When to save, and how many to keep."""

    seconds: float = Field(
        default=300.0, gt=0, le=1e9, description="at most this long between two; a thousand million is never"
    )
    steps: int | None = Field(default=None, ge=1, description="and one after every so many optimiser steps")
    keep: int = Field(default=2, ge=1, description="how many of the newest stay")


class RunConfig(Section):
    """Everything that decides a run."""

    seed: Seed = Field(default=0, description="of noise, splits, weights, order and augmentation")
    data: Data
    model: Model
    method: Annotated[BuiltIn, Field(discriminator="name")] = Pencil()
    phases: tuple[Phase, ...] = Field(min_length=1)
    optimizer: Optimizer = Optimizer()
    train: Train = Train()
    store: str = Field(
        default="auto",
        pattern=f"^({STORES})$",
        description="label rows: auto, dense, dense:mapped, top:8, top:8:mapped",
    )
    checkpoint: Checkpoint = Checkpoint()
    verdict: VerdictRule = VerdictRule()

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> RunConfig:
        """From plain values, as TOML gives them; raises one ``ConfigError`` that lists every mistake."""
        broken = next(_not_utf8(table), None)
        if broken is not None:
            raise ConfigError(
                f"{broken[0]}: {broken[1]!r} is not UTF-8; rename the file, or write it otherwise"
            )
        try:
            # By way of JSON, strict validation still takes lists for tuples. TOML's dates become strings.
            return cls.model_validate_json(json.dumps(table, default=str))
        except ValidationError as error:
            raise ConfigError(explain(error, table, cls._schema())) from None

    @classmethod
    @cache
    def _schema(cls) -> dict[str, Any]:
        """Where each setting belongs; it takes longer to write than all the rest of an explanation."""
        return cls.model_json_schema()

    @classmethod
    def read(cls, path: Path) -> RunConfig:
        """From a TOML file."""
        return cls.of(read_table(path))

    def table(self) -> dict[str, Any]:
        """As plain values."""
        return self.model_dump(mode="json", exclude_none=True)

    def toml(self) -> str:
        """As TOML; refuses what could not be read again."""
        text = to_toml(self.table())
        if len(text.encode()) > SETTINGS_BYTES:
            raise ConfigError(
                f"the settings take more than {SETTINGS_BYTES:,} bytes as TOML; put less into them"
            )
        return text


def _not_utf8(value: Any, field: str = "config") -> Iterator[tuple[str, str]]:
    """Fields whose text cannot be written to a file: names of files may be any bytes."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _not_utf8(inner, key if field == "config" else f"{field}.{key}")
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _not_utf8(inner, field)
    elif isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            yield field, value


def read_table(path: Path) -> dict[str, Any]:
    """The plain values of a TOML file."""
    try:
        text = read_text(path, limit=SETTINGS_BYTES, error=ConfigError)
    except ConfigError as error:
        raise ConfigError(f"config {error}; give the path of a TOML file") from error
    return from_toml(text, f"config {path}")
