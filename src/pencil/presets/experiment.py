"""A preset for one experiment of a paper: settings, their source, and what had to be chosen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pencil.config import RunConfig


@dataclass(frozen=True)
class Experiment:
    """Called with the data's path, it returns the settings.

    Attributes:
        title: One line: the cell of the table, data, network, and where the settings are given.
        choices: What the source leaves open, or where paper and program differ, and what is done here.
        make: The settings, from the path of the data.
    """

    title: str
    choices: tuple[str, ...]
    make: Callable[[str], RunConfig]

    def __call__(self, path: str) -> RunConfig:
        """The settings for the data at ``path``."""
        return self.make(path)
