"""What the command prints: results to stdout (people or JSON), everything else to stderr."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Mapping
from typing import Any

import click

from pencil.escape import printable


def print_json(value: Any) -> None:
    """One line of JSON on stdout; what a terminal would obey is escaped, which JSON reads as what it was."""
    click.echo(printable(json.dumps(value, ensure_ascii=False)))


def print_pairs(values: Mapping[str, Any]) -> None:
    """Aligned names and values for people."""
    width = max(map(len, values), default=0)
    for name, value in values.items():
        print_text(f"{name:<{width}}  {value}")


def print_text(text: str) -> None:
    """A result for people, on stdout."""
    click.echo(printable(text))


def say(message: str) -> None:
    """A remark for people, on stderr."""
    click.echo(printable(message), err=True)


def show_warnings_plainly() -> None:
    """Warnings as one line each, without source lines."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        say(f"warning: {message}")

    warnings.showwarning = show


def percent(share: float) -> str:
    """0.664 as 66.4 %."""
    return f"{100 * share:.1f} %"


def human(name: str, value: Any) -> str:
    """A figure as people read it, by the last words of its name: bytes with a unit, numbers in groups of three."""
    if "bytes" in name and "bytes_per_row" not in name and isinstance(value, int | float):
        for unit in ("B", "kB", "MB", "GB", "TB"):
            if value < 1000 or unit == "TB":
                return f"{value:,.4g} {unit}"
            value /= 1000
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def is_terminal() -> bool:
    """Whether stderr is a person's screen."""
    return sys.stderr.isatty()
