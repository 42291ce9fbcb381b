"""MLflow (extra ``mlflow``): files in the run directory, or wherever ``MLFLOW_TRACKING_URI`` points."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from pencil.engine.trackers.base import Tracker, flat
from pencil.imports import need

EXPERIMENT = "pencil"
_ALLOW_FILES = "MLFLOW_ALLOW_FILE_STORE"


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
        """MLflow, or how to install it; told beforehand not to report its use to its makers."""
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

    def close(self) -> None:
        """Finished, or killed and perhaps resumed later."""
        self._client.set_terminated(self._run, status="FINISHED" if self._ended else "KILLED")


@contextlib.contextmanager
def _files_allowed() -> Iterator[None]:
    """MLflow keeps its store of files but opens it only for those who ask by this variable."""
    before = os.environ.get(_ALLOW_FILES)
    os.environ[_ALLOW_FILES] = before or "true"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_ALLOW_FILES]
