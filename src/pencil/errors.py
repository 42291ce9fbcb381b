"""One exception tree: everything a user can cause and fix is a ``PencilError``."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class PencilError(Exception):
    """A mistake a user can fix. The message names the field, the value and the remedy."""


class ConfigError(PencilError):
    """One or more settings are wrong; the message lists all of them."""


class DataError(PencilError):
    """Examples or labels could not be read as asked."""


class ExampleError(DataError):
    """One example cannot be read, whatever the others are; ``data.on_error = "skip"`` leaves it out."""


class RunError(PencilError):
    """A run directory is missing, incomplete, or not what the command needs."""


class NotFiniteError(RunError):
    """Training met a number that is not finite, and stopped before it could spread; all ranks raise it together."""


class MissingExtraError(PencilError):
    """An optional package is needed; the message carries the pip command."""


class PlanWarning(UserWarning):
    """The method makes no sense with the phases of this run, such as where no label can flip."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``"; did you mean 'x'?"`` for the nearest known word, or nothing where none is near."""
    near = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
