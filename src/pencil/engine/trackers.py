"""Experiment trackers: listeners that send the numbers of each epoch to MLflow or Weights & Biases.

Every epoch is sent once, whatever was killed and resumed in between.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from pencil.durable import make_folder, write_text
from pencil.engine.events import Event
from pencil.imports import need
from pencil.reading import read_json

EXPERIMENT = "pencil"
_ALLOW_FILES = "MLFLOW_ALLOW_FILE_STORE"


class Tracker(ABC):
    """Sends the numbers of each epoch, under the tracker's own name for the run.

    A resumed run repeats the epochs after its checkpoint, bit for bit. A note in ``folder`` keeps the name and the last
    step sent, so that the tracker continues the same run and skips these epochs.
    """

    def __init__(self, folder: Path) -> None:
        make_folder(folder)
        self._note = folder / "sent.json"
        noted = read_json(self._note) if self._note.exists() else {}
        self._sent: int = noted.get("step", 0)
        self._run: str | None = noted.get("run")
        self._ended = False

    @abstractmethod
    def log(self, numbers: Mapping[str, float], step: int) -> None:
        """Send numbers to the tracker."""

    @abstractmethod
    def end(self) -> None:
        """Tell the tracker that no more numbers will come."""

    def handle(self, event: Event) -> None:
        """Send epochs that were not sent yet."""
        self._ended = self._ended or event.kind == "end"
        if event.kind == "epoch" and event.step > self._sent:
            numbers = {name: value for name, value in event.values.items() if isinstance(value, int | float)}
            if self._does("send an epoch", lambda: self.log(numbers, event.step)):
                self.note(self._run, event.step)

    def close(self) -> None:
        """End the tracker's run."""
        self._does("end its run", self.end)

    def _does(self, what: str, call: Callable[[], None]) -> bool:
        """Whether a call succeeded. A tracker that fails, as when its server is away, must not end a training."""
        try:
            call()
        except Exception as error:
            warnings.warn(
                f"{type(self).__name__} could not {what}, and training goes on: {error}", stacklevel=2
            )
            return False
        return True

    def note(self, run: str | None, step: int = 0) -> None:
        """Remember the run's name at the tracker and the last step sent."""
        self._run, self._sent = run, step
        write_text(self._note, json.dumps({"run": run, "step": step}))


class Mlflow(Tracker):
    """Settings as parameters, the numbers of an epoch as metrics at its last step.

    Args:
        directory: The run's; without ``MLFLOW_TRACKING_URI`` the store is its folder ``mlflow``.
        settings: The run's, nested.
    """

    def __init__(self, directory: Path, settings: Mapping[str, Any]) -> None:
        mlflow = self.package()
        folder = directory / "mlflow"
        super().__init__(folder)
        with _files_allowed():
            uri = os.environ.get("MLFLOW_TRACKING_URI") or folder.resolve().as_uri()
            self._client = mlflow.MlflowClient(tracking_uri=uri)
            if self._run is None:
                self._begin(directory.name, settings)
            else:
                self._client.update_run(self._run, status="RUNNING")

    @staticmethod
    def package() -> ModuleType:
        """MLflow, or how to install it; its telemetry is turned off first."""
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        return need("mlflow", extra="mlflow", purpose="write MLflow runs")

    def _begin(self, name: str, settings: Mapping[str, Any]) -> None:
        known = self._client.get_experiment_by_name(EXPERIMENT)
        experiment = known.experiment_id if known else self._client.create_experiment(EXPERIMENT)
        run = self._client.create_run(experiment, run_name=name).info.run_id
        self.note(run)
        for key, value in flat(settings):
            self._client.log_param(run, key, value)

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        """Metrics."""
        now = int(time.time() * 1000)
        metric = self.package().entities.Metric
        metrics = [metric(name, float(value), now, step) for name, value in numbers.items()]
        self._client.log_batch(self._run, metrics=metrics)

    def end(self) -> None:
        """Finished, or killed and perhaps resumed later."""
        self._client.set_terminated(self._run, status="FINISHED" if self._ended else "KILLED")


class WeightsAndBiases(Tracker):
    """Settings as the run's config, the numbers of an epoch as a line of its history.

    Nothing leaves the machine until ``wandb sync``, or ``WANDB_MODE=online``; ``WANDB_PROJECT`` names the project.

    Args:
        directory: The run's; the files are in its folder ``wandb``.
        settings: The run's, nested.
    """

    def __init__(self, directory: Path, settings: Mapping[str, Any]) -> None:
        wandb = self.package()
        super().__init__(directory / "wandb")
        self._session: Any = wandb.init(
            dir=str(directory),
            project=os.environ.get("WANDB_PROJECT", "pencil"),
            mode=os.environ.get("WANDB_MODE", "offline"),
            name=directory.name,
            id=self._run,
            resume=None if self._run is None else "allow",
            config=dict(settings),
            reinit="create_new",  # beside a run of the user's own
            settings=wandb.Settings(silent=True, console="off", x_disable_stats=True),
        )
        self.note(self._session.id, self._sent)

    @staticmethod
    def package() -> ModuleType:
        """W&B, or how to install it."""
        return need("wandb", extra="wandb", purpose="write Weights & Biases runs")

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        """A line of history."""
        self._session.log(dict(numbers), step=step)

    def end(self) -> None:
        """Finished, or marked as failed and perhaps resumed later."""
        self._session.finish(exit_code=0 if self._ended else 1)


def flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Nested settings as (``train.batch_size``, ``128``)."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value if isinstance(value, str) else json.dumps(value)


@contextlib.contextmanager
def _files_allowed() -> Iterator[None]:
    """MLflow opens a store of files only where this variable is set."""
    before = os.environ.get(_ALLOW_FILES)
    os.environ[_ALLOW_FILES] = before or "true"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_ALLOW_FILES]
