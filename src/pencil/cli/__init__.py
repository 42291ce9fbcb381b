"""The ``pencil`` command."""

from pencil.cli.main import main

__all__ = ["main"]
