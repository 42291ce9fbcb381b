"""What is fuzzed: a reader, whole files to damage, and how often it is worth trying."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from faults.mutate import Change


class Tries(NamedTuple):
    """How many inputs, in the long form and in the quick one."""

    long: int
    quick: int


USUAL, RISKY = Tries(8_000, 50), Tries(100_000, 100)
SLOW = Tries(1_500, 15)  # a page or an import for each input
Made = tuple[Sequence[bytes], Callable[[bytes], object]]
"""Seeds, and what reads one content."""


@dataclass(frozen=True)
class Target:
    """A reader under test.

    Attributes:
        name: What it is called in counts.
        make: Prepares a folder; returns seeds and the reader.
        tries: How many inputs.
        changes: Those that know its format.
    """

    name: str
    make: Callable[[Path], Made]
    tries: Tries = USUAL
    changes: Sequence[Change] = ()


def file_target(path: Path, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    """For a reader that takes a path: the content is written there first."""

    def attempt(content: bytes) -> object:
        path.write_bytes(content)
        return read(path)

    return attempt
