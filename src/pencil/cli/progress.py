"""Progress of a run: a live bar on a terminal, otherwise a line per epoch."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.table import Column
from rich.text import Text

from pencil.cli.output import LINE_SECONDS, duration, is_terminal, percent, say
from pencil.escape import printable

if TYPE_CHECKING:
    from pencil.engine import Event, Listener


def progress() -> Listener:
    """Return the listener for a terminal or for a log."""
    return Bar() if is_terminal() else Lines()


class Bar:
    """Shows phase, epoch, bar, time left, changed labels and accuracy."""

    def __init__(self) -> None:
        columns = (
            _fixed("{task.fields[phase]}", 10),
            BarColumn(bar_width=12, table_column=Column(width=12)),
            _fixed("{task.percentage:3.0f} %", 5),
            _fixed("{task.fields[left]:>7} left", 12),
            _State(),
        )
        self._progress = Progress(*columns, console=Console(stderr=True))
        self._task: TaskID | None = None
        self._state = ""

    def handle(self, event: Event) -> None:
        """Update the bar."""
        if event.kind in ("data", "check", "embed"):
            say(describe_rows(event))
            return
        if event.kind in ("epoch", "restored"):
            self._state = describe_epoch(event)
            if "reason" in event.values:
                self._progress.console.print(reason_of(event), markup=False, highlight=False)
            return
        fields: dict[str, Any] = {
            "phase": printable(event.values["phase"]),
            "left": time_left(event),
            "state": self._state,
        }
        if self._task is None:
            self._progress.start()
            self._task = self._progress.add_task("", total=event.values["total_steps"], **fields)
        self._progress.update(self._task, completed=event.step, total=event.values["total_steps"], **fields)

    def close(self) -> None:
        """Stop updating the bar."""
        self._progress.stop()


class _State(ProgressColumn):
    """The only column that is cut on a narrow terminal."""

    def render(self, task: Task) -> Text:
        return Text(task.fields["state"], no_wrap=True, overflow="ellipsis")


def _fixed(text: str, width: int) -> TextColumn:
    return TextColumn(text, markup=False, table_column=Column(width=width))


class Lines:
    """Prints one line per epoch, or fewer if epochs take less than a second."""

    def __init__(self) -> None:
        self._spoken = 0.0
        self._epoch: Event | None = None

    def handle(self, event: Event) -> None:
        """Print an epoch as soon as the next event has the time left."""
        if event.kind in ("data", "check", "embed"):
            say(describe_rows(event))
        elif event.kind in ("epoch", "restored"):
            self._epoch = event
            if "reason" in event.values:
                say(reason_of(event))
        elif self._epoch is not None and event.kind in ("step", "end", "stopped"):
            now = time.monotonic()
            if now - self._spoken >= LINE_SECONDS or event.step == event.values["total_steps"]:
                say(
                    f"{self._epoch.values['phase']:<10}  {describe_epoch(self._epoch)}  {time_left(event)} left"
                )
                self._spoken = now
            self._epoch = None

    def close(self) -> None:
        """Do nothing."""


def describe_rows(event: Event) -> str:
    """How the data is read, or the progress of checking or encoding rows before the run begins."""
    if event.kind == "data":
        return str(event.values["words"])
    verb = "checked" if event.kind == "check" else "embedded"
    return f"{verb} {event.values['done']:,} of {event.values['total']:,} rows, {time_left(event)} left"


def describe_epoch(event: Event) -> str:
    """An epoch's metrics as one line of text."""
    values = event.values
    names = (
        ("validation_accuracy", "validation"),
        ("test_accuracy", "test"),
        ("labels_correct", "labels right"),
    )
    measured = [f"{word} {percent(values[name])}" for name, word in names if name in values]
    rest = [f"changed {values['labels_changed']:,}", f"loss {values['loss']:.3f}"]
    restored = [f"restored {printable(values['restored'])}"] if "restored" in values else []
    return "  ".join([*restored, f"epoch {values['epoch']}", *measured, *rest])


def reason_of(event: Event) -> str:
    """Why a policy decided what it did at the end of an epoch."""
    return f"epoch {event.values['epoch']}: {printable(event.values['reason'])}"


def time_left(event: Event) -> str:
    """Format the time left as h:mm:ss or m:ss."""
    seconds: Any = event.values.get("seconds_left")
    return "?" if seconds is None else duration(seconds)
