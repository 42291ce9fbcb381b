"""A run directory: what a run leaves, and where.

config.toml         everything that decided the run
data.json           what tells the data from other data
environment.json    versions, machine and command
metrics.jsonl       one line per epoch
checkpoints/        to resume from
labels/             given and learned labels and the rows' ids, in parts that each rank wrote
model.safetensors   the plain backbone; model.json says how to build and feed it
summary.json        the result, written last
review.sqlite       what people decided about the labels, where pencil review was used
"""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from pencil.config import RunConfig
from pencil.durable import make_folder, write_text
from pencil.errors import ConfigError, RunError
from pencil.results import describe_environment, read_json
from pencil.run.resolve import resolves_to

DATA = "data.json"
JOB = "TORCHELASTIC_RUN_ID"  # torchrun's name for a group of workers, the same after a restart
NO_NAME = "none"  # what torchrun calls every job on several hosts that --rdzv_id does not name

_Finite = Annotated[float, Field(allow_inf_nan=False)]


class _Summary(BaseModel):
    """What others read of ``summary.json``; it may say more."""

    model_config = ConfigDict(strict=True)

    examples: int = Field(ge=1)
    labels_changed: int = Field(ge=0)
    learns_labels: bool = True
    last: dict[str, _Finite | None]
    best: dict[str, _Finite | None] = {}
    seconds: _Finite
    alarms: list[str]


class _Environment(BaseModel):
    """What others read of ``environment.json``; it may say more."""

    model_config = ConfigDict(strict=True)

    command: list[str] = []
    packages: dict[str, str] = {}
    gpus: list[str] = []


@dataclass(frozen=True)
class RunDirectory:
    """The folder of one run."""

    path: Path

    @classmethod
    def vacant(cls, path: Path) -> RunDirectory:
        """A folder for a new run, not made yet; refuses one that already holds a run."""
        directory = cls(path)
        if (path / "config.toml").exists():
            raise RunError(
                f"{path} already holds a run; continue it with: {directory.resume_command}, or choose another --out"
            )
        return directory

    @classmethod
    def create(cls, path: Path, config: RunConfig, fingerprint: dict[str, Any] | None = None) -> RunDirectory:
        """A new run; refuses a folder that already holds one."""
        directory = cls.vacant(path)
        try:
            directory._write_settings(config, fingerprint)
        except OSError as error:
            raise RunError(
                f"--out {path}: no run can be kept there ({error.strerror or error}); choose another place"
            ) from error
        return directory

    def _write_settings(self, config: RunConfig, fingerprint: dict[str, Any] | None) -> None:
        path = self.path
        make_folder(path)
        if fingerprint is not None:
            write_text(path / DATA, json.dumps(fingerprint, indent=2) + "\n")
        environment = describe_environment() | {"job": os.environ.get(JOB)}
        write_text(path / "environment.json", json.dumps(environment, indent=2) + "\n")
        write_text(path / "config.toml", config.toml())  # last: a folder that has one is a run

    def was_begun_by_this_job(self, config: RunConfig) -> bool:
        """Whether torchrun restarted workers and the run here is the one that they had begun.

        Workers on a host that joined again, or that had to wait for one, are not counted as restarted; by the name of
        their job they are.
        """
        restarted = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"
        named = os.environ.get(JOB, NO_NAME) != NO_NAME
        if not (restarted or named) or not (self.path / "config.toml").exists():
            return False
        return self.environment.get("job") == os.environ.get(JOB) and resolves_to(config, self.config)

    @classmethod
    def open(cls, path: Path) -> RunDirectory:
        """A run that exists."""
        if not (path / "config.toml").is_file():
            raise RunError(
                f"{path} holds no run (no config.toml there); give the folder that pencil train wrote"
            )
        return cls(path)

    @property
    def config(self) -> RunConfig:
        """The settings the run was made with."""
        file = self.path / "config.toml"
        try:
            return RunConfig.read(file)
        except ConfigError as error:
            raise RunError(f"{file} is not as pencil train wrote it: {error}") from error

    @property
    def fingerprint(self) -> dict[str, Any] | None:
        """What tells the run's data from other data; None for a run that did not keep it."""
        file = self.path / DATA
        return read_json(file) if file.exists() else None

    @property
    def metrics(self) -> Path:
        """One JSON line per epoch."""
        return self.path / "metrics.jsonl"

    @property
    def checkpoints(self) -> Path:
        """Where checkpoints lie."""
        return self.path / "checkpoints"

    @property
    def saved_step(self) -> int | None:
        """The step of the newest checkpoint, by its name."""
        names = [path.name for path in self.checkpoints.glob("step-*")]
        return max((int(name[5:]) for name in names if name[5:].isdecimal()), default=None)

    @property
    def labels(self) -> Path:
        """Where the parts of the learned labels lie."""
        return self.path / "labels"

    @property
    def summary(self) -> dict[str, Any]:
        """The result of a finished run."""
        self.require_finished()
        return read_json(self.path / "summary.json", _Summary)

    @property
    def environment(self) -> dict[str, Any]:
        """Versions, machine and command of whoever began the run; nothing depends on them."""
        return read_json(self.path / "environment.json", _Environment, remedy="restore it, or put {} into it")

    @property
    def is_finished(self) -> bool:
        """Whether the plan was carried out to its end."""
        return (self.path / "summary.json").is_file()

    def require_finished(self) -> None:
        """Refuse a run that still has epochs to go."""
        if not self.is_finished:
            raise RunError(f"{self.path} is not finished; continue it with: {self.resume_command}")

    @property
    def resume_command(self) -> str:
        """What to type to continue the run."""
        return f"pencil resume {shlex.quote(str(self.path))}"

    def write_summary(self, summary: dict[str, Any]) -> None:
        """Write the result; a run that has one is finished."""
        write_text(self.path / "summary.json", json.dumps(summary, indent=2) + "\n")
