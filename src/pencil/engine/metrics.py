"""A run's metrics, read again: one JSON object a line, one line an epoch.

Where a policy restored a checkpoint, a line with ``restored`` takes the place of the epochs from its own on.

Metrics describe a run, and nothing in it depends on them. So lines that were lost or damaged are no error: they are
left out, with a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pencil.errors import RunError
from pencil.reading import MB, parse_json, read_text

LINES_BYTES = 256 * MB  # a million epochs
Line = dict[str, Any]
COSTS = ("seconds", "forward_passes")
_Count = Annotated[int, Field(ge=0, le=10**15)]
_Share = Annotated[float, Field(allow_inf_nan=False)]


class _Epoch(BaseModel):
    """What every epoch has, and what some have."""

    model_config = ConfigDict(strict=True)

    step: _Count
    epoch: _Count
    phase: str
    loss: float
    labels_changed: _Count
    seconds: _Share
    forward_passes: _Count = 0
    train_agreement: _Share = 0.0
    validation_accuracy: _Share = 0.0
    test_accuracy: _Share = 0.0
    labels_correct: _Share = 0.0


def read_json_lines(path: Path) -> list[Line]:
    """All whole lines of a JSON-lines file; a last line cut off by a crash is left out."""
    if not path.exists():
        return []
    lines = [
        parse_json(text, source=f"{path}, line {number}", error=RunError)
        for number, text in enumerate(_texts(path), 1)
    ]
    strange = next((number for number, line in enumerate(lines, 1) if not isinstance(line, dict)), None)
    if strange is not None:
        raise RunError(f"{path}, line {strange}: is no JSON object; restore the file")
    return lines


def read_metrics(path: Path) -> list[Line]:
    """The epochs that led to a run's result, in order; lines that hold no epoch are left out, with a warning.

    Epochs that a restore has undone are left out too. Their time and forward passes count for the restored epoch, so
    that the sums over all lines are what the run has cost.
    """
    epochs: list[Line] = []
    for line in usable_lines(path, _is_epoch):
        if "restored" in line:
            undone = [epoch for epoch in epochs if epoch["epoch"] >= line["epoch"]]
            epochs = [epoch for epoch in epochs if epoch["epoch"] < line["epoch"]]
            spent = {name: sum(epoch.get(name, 0) for epoch in undone) for name in COSTS}
            line |= spent if undone else {}
        epochs.append(line)
    return epochs


def usable_lines(path: Path, is_usable: Callable[[Line], bool]) -> list[Line]:
    """The lines of a JSON-lines file that are objects and usable; warns of others."""
    if not path.exists():
        return []
    found = [_parsed(text) for text in _texts(path)]
    usable = [line for line in found if line is not None and is_usable(line)]
    if len(usable) < len(found):
        warnings.warn(
            f"{path}: {len(found) - len(usable):,} of {len(found):,} lines cannot be read and are left out; what the "
            "run learned does not depend on them",
            stacklevel=2,
        )
    return usable


def _texts(path: Path) -> list[str]:
    lines = read_text(path, limit=LINES_BYTES, error=RunError).split("\n")
    return lines[:-1]  # what follows the last line's end was cut off, or is nothing


def _parsed(text: str) -> Line | None:
    try:
        line = parse_json(text, source="line", error=RunError)
    except RunError:
        return None
    return line if isinstance(line, dict) else None


def _is_epoch(line: Line) -> bool:
    try:
        _Epoch.model_validate(line)
    except ValidationError:
        return False
    return True
