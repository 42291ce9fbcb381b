"""What the command prints: results to stdout (people or JSON), everything else to stderr."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Mapping
from typing import Any

import click


def print_json(value: Any) -> None:
    """One line of JSON on stdout."""
    click.echo(json.dumps(value, ensure_ascii=False))


def print_pairs(values: Mapping[str, Any]) -> None:
    """Aligned names and values for people."""
    width = max(map(len, values), default=0)
    for name, value in values.items():
        click.echo(f"{name:<{width}}  {value}")


def say(message: str) -> None:
    """A remark for people, on stderr."""
    click.echo(message, err=True)


def show_warnings_plainly() -> None:
    """Warnings as one line each, without source lines."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        say(f"warning: {message}")

    warnings.showwarning = show


def percent(share: float) -> str:
    """0.664 as 66.4 %."""
    return f"{100 * share:.1f} %"


def is_terminal() -> bool:
    """Whether stderr is a person's screen."""
    return sys.stderr.isatty()
