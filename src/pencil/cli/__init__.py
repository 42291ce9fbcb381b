"""The ``pencil`` command: parse, call, print."""

from pencil.cli.main import main

__all__ = ["main"]
