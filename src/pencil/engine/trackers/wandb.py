"""Weights & Biases (extra ``wandb``): offline in the run directory, unless ``WANDB_MODE`` says otherwise."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from pencil.engine.trackers.base import Tracker
from pencil.imports import need


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
        self.note(self._session.id, self._told)

    @staticmethod
    def package() -> ModuleType:
        """W&B, or how to install it."""
        return need("wandb", extra="wandb", purpose="write Weights & Biases runs")

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        """A line of history."""
        self._session.log(dict(numbers), step=step)

    def close(self) -> None:
        """Finished, or marked as failed and perhaps resumed later."""
        self._session.finish(exit_code=0 if self._ended else 1)
