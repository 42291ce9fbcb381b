"""``estimates.json``: what a run estimates about the noise of its labels, each figure with a 95 % interval."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from pencil.belief import Checks
from pencil.estimates import Alarm, Interval, NoiseEstimate
from pencil.results.files import damaged, read_record, write_record

ESTIMATES = "estimates.json"
MOST_PAIRS = 2000
"""Entries of the transition matrix that are kept, besides its diagonal."""
DIGITS = 6

Source = Literal["inputs", "early epoch", "last epoch", "held-out rows"]
"""What the posterior was computed from: the inputs, the network's features after an epoch, or its predictions when
training had ended, calibrated on held-out rows."""
Share = Annotated[float, Field(ge=0, le=1)]
Entry = tuple[int, int, Share, Share, Share]


@dataclass(frozen=True)
class Estimates:
    """The noise of a run's labels.

    Attributes:
        rate: The share of given labels that are wrong.
        suggested_error: The share of rows whose suggested class is wrong.
        per_class: By given class, the share of labels that are wrong: value, low, high.
        kept: By true class, the share of rows that are given it: value, low, high. Empty if there are too many classes
            for a transition matrix.
        pairs: The largest other entries of the transition matrix: true class, given class, value, low, high.
        alarms: Reasons not to trust these estimates.
        source: The features they were computed from.
        store: The kind of store of the posterior's rows.
        surest: The largest confidence that a suggestion counts with when labels are replaced.
        checks: Whether labels may be replaced; None for a posterior from before there were checks, or of a network.
    """

    rate: Interval
    suggested_error: Interval
    per_class: list[tuple[Share, Share, Share]]
    kept: list[tuple[Share, Share, Share]]
    pairs: list[Entry]
    alarms: list[Alarm]
    source: Source
    store: str
    surest: Share = 1.0
    checks: Checks | None = None

    @classmethod
    def of(cls, noise: NoiseEstimate, source: Source, store: str, checks: Checks | None = None) -> Estimates:
        """From the tensors of an estimate."""
        bounds = torch.stack([noise.matrix, noise.matrix_low, noise.matrix_high], dim=2).double().clamp(0, 1)
        return cls(
            noise.rate,
            noise.suggested_error,
            _rounded(noise.per_class.double().clamp(0, 1)),
            _rounded(bounds.diagonal().T),
            _largest(bounds),
            list(noise.alarms),
            source,
            store,
            noise.surest,
            checks,
        )

    @property
    def num_classes(self) -> int:
        """C."""
        return len(self.per_class)


def write_estimates(folder: Path, estimates: Estimates) -> None:
    """Write the file; it marks the posterior of the run as complete."""
    write_record(folder / ESTIMATES, asdict(estimates))


def read_estimates(folder: Path, num_classes: int) -> Estimates:
    """Read the file of a finished run."""
    path = folder / ESTIMATES
    found: Estimates = read_record(path, Estimates)
    classes = [number for entry in found.pairs for number in entry[:2]]
    if len(found.kept) not in (0, num_classes) or found.num_classes != num_classes:
        raise damaged(path, f"holds {found.num_classes} classes instead of {num_classes}")
    if classes and not 0 <= min(classes) <= max(classes) < num_classes:
        raise damaged(path, f"pairs: classes must be from 0 to {num_classes - 1}")
    return found


def _largest(bounds: Tensor) -> list[Entry]:
    """The largest entries (C, C, 3) off the diagonal, in descending order."""
    if not len(bounds):
        return []
    values = bounds[:, :, 0].clone().fill_diagonal_(-1.0)
    best = values.flatten().topk(min(MOST_PAIRS, values.numel()))
    places = best.indices[best.values > 0]
    found: list[Any] = bounds.flatten(0, 1)[places].tolist()
    pairs = zip((places // len(bounds)).tolist(), (places % len(bounds)).tolist(), found, strict=True)
    return [(true, given, *(round(value, DIGITS) for value in values)) for true, given, values in pairs]


def _rounded(values: Tensor) -> list[Any]:
    return [tuple(round(value, DIGITS) for value in row) for row in values.tolist()]
