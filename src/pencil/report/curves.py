"""A run's metrics as curves over epochs, and the spans of its phases."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

Line = Mapping[str, Any]
"""One epoch: a line of ``metrics.jsonl``."""

MOST_EPOCHS = 400
SHARES = {
    "test_accuracy": "Test accuracy",
    "validation_accuracy": "Validation agreement",
    "train_agreement": "Training agreement",
    "labels_correct": "Labels right",
}
"""Curves between 0 and 1. Validation labels are as noisy as the others, so their curve is named agreement."""


@dataclass(frozen=True)
class Curve:
    """A named series of points (epoch, value)."""

    name: str
    points: list[tuple[int, float]]


@dataclass(frozen=True)
class Span:
    """A phase with its first and last epoch."""

    name: str
    first: int
    last: int


def thinned(lines: Sequence[Line], most: int = MOST_EPOCHS) -> list[Line]:
    """Select at most ``most`` evenly spaced epochs, including the first and the last."""
    if len(lines) <= most:
        return list(lines)
    step = (len(lines) - 1) / (most - 1)
    return [lines[round(number * step)] for number in range(most)]


def curve(lines: Sequence[Line], key: str, name: str) -> Curve:
    """The curve of one metric, over the epochs that recorded a number for it."""
    points = [(line["epoch"], float(line[key])) for line in lines if line.get(key) is not None]
    return Curve(name, [(epoch, value) for epoch, value in points if math.isfinite(value)])


def share_curves(lines: Sequence[Line]) -> list[Curve]:
    """The curves of the accuracies and agreements that were measured."""
    curves = [curve(lines, key, name) for key, name in SHARES.items()]
    return [each for each in curves if each.points]


def spans(lines: Sequence[Line]) -> list[Span]:
    """The phases in order."""
    groups = [list(group) for _, group in groupby(lines, key=lambda line: line["phase"])]
    return [Span(group[0]["phase"], group[0]["epoch"], group[-1]["epoch"]) for group in groups]
