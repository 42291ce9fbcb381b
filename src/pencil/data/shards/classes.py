"""Class names from the labels of shards: whole numbers are class numbers, texts are sorted."""

from __future__ import annotations

from collections.abc import Sequence

from pencil.errors import DataError

LARGEST = 1 << 24
"""Above this a number is no class but, more likely, an id."""


def class_table(labels: Sequence[str]) -> tuple[tuple[str, ...], list[int]]:
    """Class names, and for every label its class.

    Args:
        labels: All labels there are, each once.
    """
    if all(_is_number(label) for label in labels):
        return _numbered([int(label) for label in labels])
    names = tuple(sorted(labels))
    place = {name: number for number, name in enumerate(names)}
    return names, [place[label] for label in labels]


def check_test_classes(labels: Sequence[str], known: int) -> None:
    """Refuse classes that only test shards have; ``labels`` begins with the ``known`` of the training shards."""
    strangers = [label for label in labels[known:] if not _is_number(label)]
    if strangers:
        raise DataError(
            f"--test: classes that the training shards have not: {', '.join(sorted(strangers)[:5])}"
        )


def _is_number(label: str) -> bool:
    return label.removeprefix("-").isdecimal()


def _numbered(numbers: list[int]) -> tuple[tuple[str, ...], list[int]]:
    if min(numbers) < 0 or max(numbers) >= LARGEST:
        wrong = min(numbers) if min(numbers) < 0 else max(numbers)
        raise DataError(f"label {wrong} is no class number; number the classes from 0, or give them names")
    return tuple(map(str, range(max(numbers) + 1))), numbers
