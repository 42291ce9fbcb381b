"""A run directory and its files.

run.json            the id of the run, and the format of its files
config.toml         all settings of the run
trusted.json        the verified labels it was trained with, if any
data.json           the fingerprint of the data
rows.jsonl          the rows, if they came from memory, such as a data frame
environment.json    versions, machine and command
metrics.jsonl       one line per epoch
checkpoints/        checkpoints to resume from
labels/             given and learned labels and the rows' ids; each rank writes its own files
posterior/          calibrated probabilities of the labels; estimates.json what they say about the noise
start/              labels that training started from; calibrated-EPOCHS/ those later phases began with
model.safetensors   the weights of the trained network; model.json describes how to build and feed it
neighbours.json     near-identical rows and outliers: how many; neighbours.safetensors which
summary.json        the result, written last
review.sqlite       review decisions, if pencil review was used
audit.jsonl         the draws and answers of pencil audit; asked.jsonl those of pencil review --ask

docs/format.md describes them, and what each holds about the run it belongs to.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from pencil.config import RunConfig
from pencil.durable import make_folder, write_text
from pencil.errors import ConfigError, RunError
from pencil.identity import SEAL, new_id, run_id, sealed_json, write_identity
from pencil.kinds import DataSection, TrustedLabels
from pencil.reading import parse_json
from pencil.results import describe_environment, read_json
from pencil.results.files import read_tensors, write_record, write_tensors
from pencil.run.resolve import resolves_to
from pencil.run.trusted import DATA, TRUSTED, Verified, earlier_labels, write_trusted

ROWS = "rows.jsonl"
FOLDERS = ("labels", "posterior", "start", "calibrated-", "checkpoints")
JOB = "TORCHELASTIC_RUN_ID"  # torchrun's name of a job, unchanged by restarts
NO_NAME = "none"  # torchrun's name for jobs on several hosts without --rdzv_id

_Finite = Annotated[float, Field(allow_inf_nan=False)]


class _Alarm(BaseModel):
    """An alarm in ``summary.json``."""

    model_config = ConfigDict(strict=True)

    name: str
    words: str
    remedy: str
    action: str
    epoch: int | None


class _Summary(BaseModel):
    """The required fields of ``summary.json``; others are allowed."""

    model_config = ConfigDict(strict=True)

    examples: int = Field(ge=1)
    labels_changed: int = Field(ge=0)
    learns_labels: bool = True
    keeps_beliefs: bool | None = None
    last: dict[str, _Finite | None]
    best: dict[str, _Finite | None] = {}
    seconds: _Finite
    alarms: list[_Alarm]


class _Environment(BaseModel):
    """The required fields of ``environment.json``; others are allowed."""

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
        """The folder of a new run, not created yet.

        Raises:
            RunError: The folder already contains a run.
        """
        directory = cls(path)
        if (path / "config.toml").exists():
            raise RunError(
                f"{path} already contains a run; continue it with: {directory.resume_command}, or choose another --out"
            )
        return directory

    @classmethod
    def create(
        cls,
        path: Path,
        config: RunConfig,
        fingerprint: dict[str, Any] | None = None,
        verified: Verified | None = None,
    ) -> RunDirectory:
        """Create the folder of a new run, which gets an id.

        Raises:
            RunError: The folder already contains a run, or cannot be written.
        """
        directory = cls.vacant(path)
        try:
            directory._write_settings(config, fingerprint, verified)
        except OSError as error:
            raise RunError(
                f"--out {path}: cannot be written ({error.strerror or error}); choose another place"
            ) from error
        return directory

    def _write_settings(
        self, config: RunConfig, fingerprint: dict[str, Any] | None, verified: Verified | None
    ) -> None:
        path = self.path
        make_folder(path)
        write_identity(path)
        if fingerprint is not None:
            write_record(path / DATA, fingerprint, indent=2)
        if verified is not None:
            write_trusted(path, verified)
        environment = describe_environment() | {"job": os.environ.get(JOB)}
        write_record(path / "environment.json", environment, indent=2)
        write_text(path / "config.toml", config.toml())  # last: a folder with this file counts as a run

    def convert(self) -> None:
        """Give a run from before there were ids one, keep the verified labels it names, and seal what it holds."""
        if run_id(self.path) is not None:
            return
        owner = new_id()
        if not (self.path / TRUSTED).exists() and (verified := earlier_labels(self.path)).labels:
            write_trusted(self.path, verified)
        for file in (file for place in own_folders(self.path) for file in place.iterdir()):
            if file.suffix == ".json":
                values = parse_json(file.read_bytes(), source=file, error=RunError)
                rest = {name: value for name, value in values.items() if name != SEAL}
                write_text(file, sealed_json(rest, owner, indent=2))
            elif file.suffix == ".safetensors":
                write_tensors(file, read_tensors(file), owner)
        write_identity(self.path, owner)  # last: until then the run counts as one from before

    def was_begun_by_this_job(self, config: RunConfig) -> bool:
        """Whether torchrun restarted its workers and they began this run with these settings."""
        return self.is_of_this_job and resolves_to(config, self.config)

    @property
    def is_of_this_job(self) -> bool:
        """Whether torchrun restarted its workers and they began a run here.

        torchrun does not count workers as restarted if their host rejoined or had to wait for another. They are
        recognised by the name of their job.
        """
        restarted = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"
        named = os.environ.get(JOB, NO_NAME) != NO_NAME
        if not (restarted or named) or not (self.path / "config.toml").exists():
            return False
        return bool(self.environment.get("job") == os.environ.get(JOB))

    @classmethod
    def open(cls, path: Path) -> RunDirectory:
        """Open an existing run.

        Raises:
            RunError: The folder contains no run, one with links in it, or one of a newer version.
        """
        if not (path / "config.toml").is_file():
            raise RunError(
                f"{path} is not a run (config.toml is missing); give a folder written by pencil train"
            )
        refuse_links(path)
        run_id(path)
        return cls(path)

    @property
    def config(self) -> RunConfig:
        """The settings of the run."""
        file = self.path / "config.toml"
        try:
            return RunConfig.read(file)
        except ConfigError as error:
            raise RunError(f"{file} is damaged: {error}; restore it from a backup") from error

    @property
    def data(self) -> DataSection:
        """The settings of the run's data; rows and verified labels that are kept in the folder move with it.

        They are the run's own even if its old place has rows too, which may be those of a later run.
        """
        data = self.config.data
        kept: dict[str, Any] = {}
        rows, verified = (self.path / ROWS).absolute(), (self.path / TRUSTED).absolute()
        if Path(data.path).name == ROWS and rows.is_file():
            kept["path"] = str(rows)
        if data.trusted is not None and verified.is_file():
            kept["trusted"] = TrustedLabels(path=str(verified))
        return data.model_copy(update=kept)

    @property
    def fingerprint(self) -> dict[str, Any] | None:
        """The fingerprint of the run's data; None for a run without one."""
        file = self.path / DATA
        return read_json(file) if file.exists() else None

    @property
    def metrics(self) -> Path:
        """The metrics file, with one JSON line per epoch."""
        return self.path / "metrics.jsonl"

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints."""
        return self.path / "checkpoints"

    @property
    def saved_step(self) -> int | None:
        """The step of the newest checkpoint, from its name."""
        names = [path.name for path in self.checkpoints.glob("step-*")]
        return max((int(name[5:]) for name in names if name[5:].isdecimal()), default=None)

    @property
    def labels(self) -> Path:
        """The folder of the learned labels."""
        return self.path / "labels"

    @property
    def summary(self) -> dict[str, Any]:
        """The result of a finished run."""
        self.require_finished()
        return read_json(self.path / "summary.json", _Summary)

    @property
    def environment(self) -> dict[str, Any]:
        """Versions, machine and command at the start of the run, for information only."""
        file = self.path / "environment.json"
        return read_json(file, _Environment, remedy="restore or remove it") if file.exists() else {}

    @property
    def is_finished(self) -> bool:
        """Whether all epochs of the run are done."""
        return (self.path / "summary.json").is_file()

    def require_finished(self) -> None:
        """Check that the run is finished.

        Raises:
            RunError: The run has epochs left.
        """
        if not self.is_finished:
            raise RunError(f"{self.path} is not finished; continue it with: {self.resume_command}")

    @property
    def resume_command(self) -> str:
        """The command that continues the run."""
        return f"pencil resume {shlex.quote(str(self.path))}"

    def write_summary(self, summary: dict[str, Any]) -> None:
        """Write the result, which marks the run as finished."""
        write_record(self.path / "summary.json", summary, indent=2)


def own_folders(folder: Path) -> list[Path]:
    """A run's folder and those in it that hold its files; others, such as a tracker's, are not the run's own."""
    return [
        folder,
        *(each for each in sorted(folder.iterdir()) if each.name.startswith(FOLDERS) and each.is_dir()),
    ]


def refuse_links(folder: Path) -> None:
    """Refuse a run with links among its files: a stranger's run could have others overwritten or removed by them.

    Raises:
        RunError: A file or folder is a link.
    """
    for place in own_folders(folder):
        link = next((each for each in place.iterdir() if each.is_symlink()), None)
        if link is not None:
            raise RunError(f"{link}: is a link; replace it with what it points to, or remove it")
