"""The classes of shards, from all labels that they hold."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

from pencil.errors import DataError
from pencil.stores.given import SPARE_CLASSES


def class_table(labels: Mapping[str, str], rows: int) -> tuple[tuple[str, ...], list[int]]:
    """Class names, and for every label its class.

    Args:
        labels: All labels there are, with the shard that each was first found in.
        rows: How many rows there are; a number far beyond is no class but, more likely, an id.
    """
    if all(is_number(label) for label in labels):
        return _numbered(labels, rows)
    names = tuple(sorted(labels))
    place = {name: number for number, name in enumerate(names)}
    return names, [place[label] for label in labels]


def check_test_classes(labels: Sequence[str], known: int) -> None:
    """Refuse classes that only test shards have; ``labels`` begins with the ``known`` of the training shards."""
    unknown = [label for label in labels[known:] if not is_number(label)]
    if unknown:
        raise DataError(
            f"--test: classes that the training shards do not have: {', '.join(sorted(unknown)[:5])}; fix their labels"
        )


def is_number(label: str) -> bool:
    """Whether an index takes a label for a class number."""
    return len(label) < 19 and label.removeprefix("-").isdecimal()


def _numbered(labels: Mapping[str, str], rows: int) -> tuple[tuple[str, ...], list[int]]:
    wrong = next((label for label in labels if not 0 <= int(label) < rows + SPARE_CLASSES), None)
    if wrong is not None:
        raise DataError(
            f"{labels[wrong]}: label {wrong} is no class number: there are {rows:,} rows; number classes from 0, or "
            "give them names"
        )
    numbers = [int(label) for label in labels]
    first, last = min(numbers), max(numbers)
    if first > 0:
        warnings.warn(f"no row has a class below {first}; the classes are {first} to {last}", stacklevel=5)
    return tuple(map(str, range(first, last + 1))), [number - first for number in numbers]
