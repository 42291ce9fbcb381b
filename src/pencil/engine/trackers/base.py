"""What trackers share: every epoch is told once, whatever was killed and resumed in between."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pencil.durable import make_folder, write_text
from pencil.engine.events import Event


class Tracker(ABC):
    """Tells the numbers of each epoch, under the tracker's own name for the run.

    A resumed run says again what it had said after its checkpoint, bit for bit the same; a note in ``folder`` keeps the
    name and the last step told, so that the tracker goes on in the same run and skips these.
    """

    def __init__(self, folder: Path) -> None:
        make_folder(folder)
        self._note = folder / "told.json"
        noted = json.loads(self._note.read_text()) if self._note.exists() else {}
        self._told: int = noted.get("step", 0)
        self._run: str | None = noted.get("run")
        self._ended = False

    @abstractmethod
    def log(self, numbers: Mapping[str, float], step: int) -> None:
        """Tell the tracker."""

    def hear(self, event: Event) -> None:
        """Tell epochs that are news."""
        self._ended = self._ended or event.kind == "end"
        if event.kind == "epoch" and event.step > self._told:
            numbers = {name: value for name, value in event.values.items() if isinstance(value, int | float)}
            self.log(numbers, event.step)
            self.note(self._run, event.step)

    def note(self, run: str | None, step: int = 0) -> None:
        """Remember the run's name at the tracker and how far it has been told."""
        self._run, self._told = run, step
        write_text(self._note, json.dumps({"run": run, "step": step}))


def flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Nested settings as (``train.batch_size``, ``128``)."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value if isinstance(value, str) else json.dumps(value)
