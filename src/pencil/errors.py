"""Exceptions. Every error that a user can fix is a ``PencilError``."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class PencilError(Exception):
    """An error that the user can fix. The message names the field, the value and the remedy."""


class ConfigError(PencilError):
    """One or more settings are wrong. The message lists all of them."""


class DeviceError(ConfigError):
    """This machine does not have the device of the settings."""


class DataError(PencilError):
    """Examples or labels could not be read."""


class ExampleError(DataError):
    """A single example cannot be read; ``data.on_error = "skip"`` leaves it out."""


class RunError(PencilError):
    """A run directory is missing, incomplete, or unsuitable for the command."""


class NotFiniteError(RunError):
    """Training stopped at a value that is not finite. All ranks raise this error together."""


class AlarmError(RunError):
    """Training stopped at an alarm whose action is "stop". All ranks raise this error together."""


class MissingExtraError(PencilError):
    """An optional package is missing. The message contains the pip command."""


class PlanWarning(UserWarning):
    """The method does not fit the phases of this run, for example because no label can change."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the closest known word, or ``""`` if none is close."""
    near = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
