"""Output of the commands: results on stdout (text or JSON), everything else on stderr."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Mapping
from typing import Any

import click

from pencil.escape import printable

LINE_SECONDS = 1.0  # minimum time between two lines without a terminal; the last epoch is always printed


def print_json(value: Any) -> None:
    """Print one line of JSON on stdout; control characters are escaped."""
    click.echo(printable(json.dumps(value, ensure_ascii=False)))


def print_pairs(values: Mapping[str, Any]) -> None:
    """Print aligned names and values."""
    width = max(map(len, values), default=0)
    for name, value in values.items():
        print_text(f"{name:<{width}}  {value}")


def print_text(text: str) -> None:
    """Print text on stdout, with control characters escaped."""
    click.echo(printable(text))


def say(message: str) -> None:
    """Print a message on stderr, with control characters escaped."""
    click.echo(printable(message), err=True)


def show_warnings_plainly() -> None:
    """Print each warning as one line, without source lines."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        say(f"warning: {message}")

    warnings.showwarning = show


def percent(share: float) -> str:
    """Format 0.664 as 66.4 %."""
    return f"{100 * share:.1f} %"


def human(name: str, value: Any) -> str:
    """Format a figure by the suffix of its name: bytes with a unit, numbers with thousands separators."""
    if "bytes" in name and "bytes_per_row" not in name and isinstance(value, int | float):
        for unit in ("B", "kB", "MB", "GB", "TB"):
            if value < 1000 or unit == "TB":
                return f"{value:,.4g} {unit}"
            value /= 1000
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def is_terminal() -> bool:
    """Whether stderr is a terminal."""
    return sys.stderr.isatty()


def duration(seconds: float) -> str:
    """Format seconds as h:mm:ss or m:ss."""
    hours, rest = divmod(round(seconds), 3600)
    minutes, last = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{last:02}" if hours else f"{minutes}:{last:02}"
