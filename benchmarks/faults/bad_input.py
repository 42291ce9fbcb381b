"""A case of bad or hostile data: what it writes, how it is read, and what must come of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Expected = Literal["works", "error", "either"]
Write = Callable[[Path], Path]
"""Writes its files into an empty folder; the path to read."""


@dataclass(frozen=True)
class Case:
    """One input.

    Attributes:
        name: Stable, for tests are named by it.
        write: Makes the files.
        expected: Whether it is read, refused by one error, or may be either.
        tells: What the error must name, as a regular expression: the file, and the row where there is one.
        reader: How it is read: as a data set, a label file, trusted labels, shards to index, an index, settings, or
            by a command.
        settings: Settings of the data, as ``--set`` takes them.
        words: Those of the command, with FOLDER for the path.
    """

    name: str
    write: Write
    expected: Expected
    tells: str = ""
    reader: Literal["data", "labels", "trusted", "shards", "index", "settings", "command"] = "data"
    settings: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


def always(content: bytes) -> Callable[[], bytes]:
    """A content that is at hand, where one may also be made when it is written."""
    return lambda: content
