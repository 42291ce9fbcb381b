"""A run's labels row by row, as other tools take them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pencil.results import LabelChunk

Chunks = Iterable[LabelChunk]


@dataclass(frozen=True)
class LabelRow:
    """What a run believes about one example.

    Attributes:
        id: What identifies it to its owner.
        given: The name of the class that came with it.
        suggested: The name of the likeliest class.
        confidence: Its probability.
        verdict: ``keep``, ``relabel`` or ``review``; ``drop`` where somebody decided so.
    """

    id: str
    given: str
    suggested: str
    confidence: float
    verdict: str


def label_rows(chunks: Chunks, class_names: Sequence[str]) -> Iterator[LabelRow]:
    """Every row of the chunks, in order."""
    for chunk in chunks:
        best = chunk.distribution.max(dim=1)
        yield from map(
            LabelRow,
            chunk.ids,
            chunk.given,
            (class_names[index] for index in best.indices.tolist()),
            (round(value, 6) for value in best.values.tolist()),
            chunk.verdict_names(class_names),
        )


def write_json_list(path: Path, items: Iterable[Any], before: str = "[", after: str = "]") -> int:
    """Write a JSON list item by item, one to a line, between ``before`` and ``after``; returns their number."""
    count = 0
    with path.open("w", encoding="ascii") as file:
        file.write(before)
        for count, item in enumerate(items, start=1):
            file.write(",\n" if count > 1 else "\n")
            file.write(json.dumps(item))
        file.write(f"\n{after}\n")
    return count
