"""Class names from the labels of shards: whole numbers are class numbers, texts are sorted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pencil.errors import DataError
from pencil.stores.given import SPARE_CLASSES


def class_table(labels: Mapping[str, str], rows: int) -> tuple[tuple[str, ...], list[int]]:
    """Class names, and for every label its class.

    Args:
        labels: All labels there are, with the shard that each was first found in.
        rows: How many rows there are; a number far beyond is no class but, more likely, an id.
    """
    if all(_is_number(label) for label in labels):
        return _numbered(labels, rows)
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
    return len(label) < 19 and label.removeprefix("-").isdecimal()


def _numbered(labels: Mapping[str, str], rows: int) -> tuple[tuple[str, ...], list[int]]:
    wrong = next((label for label in labels if not 0 <= int(label) < rows + SPARE_CLASSES), None)
    if wrong is not None:
        raise DataError(
            f"{labels[wrong]}: label {wrong} is no class number: there are {rows:,} rows; number classes from 0, or "
            "give them names"
        )
    numbers = [int(label) for label in labels]
    return tuple(map(str, range(max(numbers) + 1))), numbers
