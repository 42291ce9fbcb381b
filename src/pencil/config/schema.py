"""RunConfig: all settings of a run, as frozen sections that can be read from and written to TOML.

Methods, phases, schedules and augmentation are the dataclasses that the rest of the package uses.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from pencil.algorithm import Pencil, Phase
from pencil.algorithm.checks import LARGEST, require
from pencil.config.explain import explain
from pencil.config.methods import MethodSetting, OwnMethod
from pencil.config.toml import from_toml, to_toml
from pencil.engine.alarms import AlarmActions
from pencil.errors import ConfigError
from pencil.kinds import AnyKind, DataSection, Section, kinds, on_change
from pencil.kinds.sections import Seed
from pencil.methods import Method
from pencil.reading import MB, read_text
from pencil.results.judged import VerdictRule
from pencil.stores.choice import GRAMMAR as STORES

SETTINGS_BYTES = (
    2 * MB
)  # room for a transition matrix of 300 classes; more would take the reader half a minute


class Model(Section):
    """The backbone: a built-in name, torchvision:NAME, timm:NAME, or your own package.module:factory."""

    name: str = Field(description="the name; if it is unknown, pencil train lists the known names")
    args: dict[str, Any] = Field(
        default_factory=dict, description="arguments of the network, such as its width"
    )


class Optimizer(Section):
    """The network's optimiser; its learning rate belongs to the phases."""

    name: Literal["sgd", "adamw"] = Field(default="sgd", description="the optimiser")
    momentum: float = Field(
        default=0.9, ge=0, lt=1, description="momentum of SGD; AdamW uses torch's defaults"
    )
    nesterov: bool = Field(default=False, description="use Nesterov momentum; for SGD with momentum")
    weight_decay: float = Field(
        default=1e-4, ge=0, le=LARGEST, description="weight decay of all weights, including biases"
    )

    @model_validator(mode="after")
    def _nesterov_has_momentum(self) -> Optimizer:
        if self.nesterov:
            sgd = self.name == "sgd"
            require(sgd, "nesterov", True, f"has no effect on {self.name}; leave it out, or use sgd")
            require(self.momentum > 0, "nesterov", True, "needs momentum above 0; set optimizer.momentum=0.9")
        return self


class Train(Section):
    """The training loop."""

    batch_size: int = Field(default=128, ge=1, description="examples per optimiser step, across all ranks")
    accumulate: int = Field(
        default=1, ge=1, description="split each batch into this many passes to save memory"
    )
    evaluate_every: int = Field(
        default=1,
        ge=1,
        description="epochs between evaluations; the last epoch of a phase is always evaluated",
    )
    device: str = Field(default="auto", description="cpu, cuda, cuda:0, ...; auto uses a GPU if there is one")
    parallel: Literal["ddp", "fsdp"] = Field(
        default="ddp", description="several ranks: ddp copies the network to each, fsdp shards it"
    )
    precision: Literal["auto", "fp32", "bf16"] = Field(
        default="fp32", description="precision of the network; auto uses bf16 if the hardware supports it"
    )
    channels_last: bool = Field(
        default=False, description="use the channels_last memory format; faster for most images"
    )
    compile: bool = Field(default=False, description="use torch.compile: slower to start, faster afterwards")
    workers: int = Field(default=0, ge=0, description="processes that load examples in advance")
    timeout_seconds: float = Field(
        default=120.0,
        ge=1,
        le=86_400,
        description="several hosts: seconds until an unreachable host counts as lost",
    )
    tensorboard: bool = Field(default=False, description="write event files into the run's folder")
    mlflow: bool = Field(default=False, description="track in MLflow, in files or at MLFLOW_TRACKING_URI")
    wandb: bool = Field(
        default=False, description="track in Weights & Biases, offline unless WANDB_MODE is set"
    )


class Checkpoint(Section):
    """When to save checkpoints, and how many to keep."""

    seconds: float = Field(
        default=300.0, gt=0, le=1e9, description="maximum seconds between two checkpoints; 1e9 means never"
    )
    steps: int | None = Field(default=None, ge=1, description="also save after every so many optimiser steps")
    keep: int = Field(default=2, ge=1, description="number of newest checkpoints to keep")


class Start(Section):
    """What training starts from."""

    labels: Literal["given", "prototypes"] = Field(
        default="given",
        description="given, or prototypes: better labels, found in closed form from features before training",
    )
    run: str | None = Field(
        default=None,
        description="a finished run: known rows start from its labels, and the network from its weights",
    )
    run_id: str | None = Field(
        default=None, description="the id of that run; another run in its place is refused"
    )


class RunConfig(Section):
    """All settings of a run."""

    seed: Seed = Field(default=0, description="seed of noise, splits, weights, order and augmentation")
    data: Annotated[DataSection, AnyKind()]
    model: Model
    method: MethodSetting = Pencil()
    phases: tuple[Phase, ...] = Field(min_length=1)
    plan: Literal["fixed", "auto"] = Field(
        default="fixed",
        description="fixed: train the phases as they are; auto: begin, repeat or undo correction by held-out agreement",
    )
    optimizer: Optimizer = Optimizer()
    train: Train = Train()
    store: str = Field(
        default="auto",
        pattern=f"^({STORES})$",
        description="label rows: auto, dense, dense:mapped, top:8, top:8:mapped",
    )
    neighbours: bool = Field(
        default=True,
        description="find near-identical rows and outliers among inputs that are vectors of features",
    )
    checkpoint: Checkpoint = Checkpoint()
    alarms: AlarmActions = AlarmActions()
    verdict: VerdictRule = VerdictRule()
    start: Start = Start()

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> RunConfig:
        """Create settings from plain values, as TOML gives them; one ``ConfigError`` lists every mistake."""
        broken = next(_not_utf8(table), None)
        if broken is not None:
            raise ConfigError(
                f"{broken[0]}: {broken[1]!r} is not UTF-8; rename the file, or change the value"
            )
        kinds()  # loads those of installed packages
        try:
            # Through JSON, because strict validation then accepts lists for tuples. TOML's dates become strings.
            return cls.model_validate_json(json.dumps(table, default=str))
        except ValidationError as error:
            raise ConfigError(explain(error, table, _schema())) from None

    @classmethod
    def read(cls, path: str | Path) -> RunConfig:
        """Read settings from a TOML file."""
        return cls.of(read_table(Path(path)))

    def load_method(self) -> Method:
        """The method; one of your own is imported here and nowhere else."""
        return self.method.load() if isinstance(self.method, OwnMethod) else self.method

    def table(self) -> dict[str, Any]:
        """The settings as plain values."""
        return self.model_dump(mode="json", exclude_none=True)

    def toml(self) -> str:
        """The settings as TOML.

        Raises:
            ConfigError: The text is too large to be read again.
        """
        text = to_toml(self.table())
        if len(text.encode()) > SETTINGS_BYTES:
            raise ConfigError(f"the settings take more than {SETTINGS_BYTES:,} bytes as TOML; shorten them")
        return text


@cache
def _schema() -> dict[str, Any]:
    """The JSON schema of the settings, cached because it is slow to build."""
    return RunConfig.model_json_schema()


@on_change
def _take_new_kinds() -> None:
    RunConfig.model_rebuild(force=True)
    _schema.cache_clear()


def _not_utf8(value: Any, field: str = "config") -> Iterator[tuple[str, str]]:
    """Yield fields whose text is not UTF-8, such as file names with arbitrary bytes."""
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
    """Read the plain values of a TOML file."""
    try:
        text = read_text(path, limit=SETTINGS_BYTES, error=ConfigError)
    except ConfigError as error:
        raise ConfigError(f"config {error}; give the path of a TOML file") from error
    return from_toml(text, f"config {path}")
