"""Events of a run and their listeners: metrics as JSON lines, TensorBoard, progress for people."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from pencil.durable import write_text
from pencil.engine.metrics import usable_lines
from pencil.imports import need

Kind = Literal["data", "check", "embed", "begin", "step", "epoch", "restored", "checkpoint", "stopped", "end"]


@dataclass(frozen=True)
class Event:
    """One thing that happened.

    Attributes:
        kind: What: ``data`` (how the data is read, in ``words``), ``check`` (rows looked at before the run), ``embed``
            (rows encoded before the run), ``begin``, ``step``, ``epoch`` (with metrics), ``restored`` (a checkpoint
            kept by name, with the metrics of its epoch), ``checkpoint`` (will be saved now), ``stopped`` (by a signal),
            ``end``.
        step: Optimiser steps taken so far, those that a restore has undone included.
        values: Its details, such as metrics.
    """

    kind: Kind
    step: int
    values: Mapping[str, Any] = field(default_factory=dict)


class Listener(Protocol):
    """Receives every event in order."""

    def handle(self, event: Event) -> None:
        """Receive an event."""
        ...

    def close(self) -> None:
        """No more events will come."""
        ...


@dataclass
class Events:
    """Passes every event to all listeners."""

    listeners: Sequence[Listener] = ()

    def emit(self, kind: Kind, step: int, **values: Any) -> None:
        """Pass an event to all listeners."""
        event = Event(kind, step, values)
        for listener in self.listeners:
            listener.handle(event)

    def close(self) -> None:
        """Close all listeners."""
        for listener in self.listeners:
            listener.close()


class JsonLines:
    """One JSON object per epoch, appended and flushed; a resumed run first drops the lines that it will write again.

    Where a checkpoint is restored, the lines of the epochs undone stay. A line with the metrics of the restored epoch
    and the checkpoint's name in ``restored`` follows. ``metrics.read_metrics`` leaves out what was undone.

    Lines are synced before each checkpoint, which relies on them.
    """

    def __init__(self, path: Path, *, resume_at: int = 0) -> None:
        kept = usable_lines(path, _has_step) if resume_at else []
        kept = [line for line in kept if line["step"] <= resume_at]
        # At once, so that a crash here costs no epoch of the past.
        write_text(path, "".join(json.dumps(line) + "\n" for line in kept))
        self._file = path.open("a")
        self._synced = True

    def handle(self, event: Event) -> None:
        """Write epochs; steps would be too many."""
        if event.kind in ("epoch", "restored"):
            self._file.write(json.dumps({"step": event.step, **event.values}) + "\n")
            self._file.flush()
            self._synced = False
        elif event.kind == "checkpoint" and not self._synced:
            os.fsync(self._file.fileno())
            self._synced = True

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _has_step(line: Mapping[str, Any]) -> bool:
    return type(line.get("step")) is int


class TensorBoard:
    """Every number of an epoch as a scalar (extra ``tensorboard``)."""

    def __init__(self, folder: Path, *, resume_at: int = 0) -> None:
        need("tensorboard", extra="tensorboard", purpose="write TensorBoard events")
        from torch.utils.tensorboard import SummaryWriter

        # TensorBoard hides what is at purge_step too, but the epoch that ended there is not written again.
        self._writer: Any = SummaryWriter(str(folder), purge_step=resume_at + 1)

    def handle(self, event: Event) -> None:
        """Write epochs."""
        if event.kind != "epoch":
            return
        for name, value in event.values.items():
            if isinstance(value, int | float):
                self._writer.add_scalar(name, value, event.step)

    def close(self) -> None:
        """Flush and close."""
        self._writer.close()


class Clock:
    """Time left, at the pace of the latest steps: a pause or a busy machine counts for an eighth of a run at most."""

    def __init__(self) -> None:
        self._marks: list[tuple[float, int]] = []  # two at most, a sixteenth of the steps or more apart

    def seconds_left(self, step: int, total: int) -> float | None:
        """Seconds until ``total`` steps; None before there is a pace, as after steps were undone."""
        now = time.monotonic()
        if not self._marks or step < self._marks[-1][1]:
            self._marks = [(now, step)]
        then, first = self._marks[0]
        if step - self._marks[-1][1] >= max(1, total / 16):
            self._marks = [self._marks[-1], (now, step)]
        return (now - then) / (step - first) * (total - step) if step > first else None
