"""What saving costs training: the same training with and without checkpoints, taking turns.

    python benchmarks/checkpoint_stall.py [--rows 10000000] [--json]

An MLP on random features with a label table cut to 8 of 1,000 entries. Every other stretch of steps begins with a
checkpoint that is written beside training. ``seconds_lost_per_save``: how much longer the median stretch with a save
takes than the median one without. ``stall_at_default``: that over the default interval between checkpoints (300 s), the
share of training time that saving takes. ``seconds_of_a_save``: the same state saved while training waits.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from common import finish
from torch import Tensor

from pencil.algorithm import Pencil, Phase
from pencil.config.schema import Checkpoint
from pencil.data import EpochSampler, Examples, Preparation, RowNumbers
from pencil.engine import Checkpoints, Event, Events, LabelLearner, Loop, Runtime, Training
from pencil.models import build_model
from pencil.stores import GivenLabels

CLASSES, DIMS, BATCH = 1000, 512, 512
CPU = torch.device("cpu")


@dataclass(frozen=True)
class RandomInputs:
    """Features of noise, made when they are asked for."""

    num_rows: int

    def __len__(self) -> int:
        return self.num_rows

    def fetch(self, indices: Tensor) -> Tensor:
        """Noise (B, DIMS)."""
        return torch.randn(len(indices), DIMS)


class Enough(Exception):
    """Ends the loop once everything is measured."""


class Stretches:
    """Asks for a checkpoint at the start of every other stretch of steps, and notes how long stretches take."""

    def __init__(self, steps: int, rounds: int) -> None:
        self.times: list[float] = []
        self._steps, self._rounds = steps, rounds
        self._since = 0.0
        self.loop: Loop | None = None

    def handle(self, event: Event) -> None:
        """At the end of a stretch, note its time and begin the next one."""
        if event.kind != "step" or event.step % self._steps:
            return
        assert self.loop is not None
        if self._since:
            self.times.append(time.perf_counter() - self._since)
        if len(self.times) == 2 * self._rounds:
            raise Enough
        print(f"{len(self.times)}/{2 * self._rounds} stretches", file=sys.stderr)
        self._since = time.perf_counter()
        if len(self.times) % 2:
            self.loop._save(wait=False)

    def close(self) -> None:
        """Nothing to close."""


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--steps", type=int, default=150, help="in a stretch")
    parser.add_argument("--rounds", type=int, default=6, help="stretches with a save, and as many without")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(arguments.rows, arguments.steps, arguments.rounds, Path(folder))
    finish(figures, as_json=arguments.json)


def measure(rows: int, steps: int, rounds: int, folder: Path) -> dict[str, float]:
    """The figures."""
    stretches = Stretches(steps, rounds)
    loop = Loop(training(rows, folder, stretches))
    stretches.loop = loop
    with contextlib.suppress(Enough):
        loop.run()
    begun = time.perf_counter()
    loop._save(wait=True)
    alone = time.perf_counter() - begun
    without, saving = (statistics.median(stretches.times[first::2]) for first in (0, 1))
    return {
        "rows": rows,
        "seconds_of_a_stretch": round(without, 3),
        "seconds_lost_per_save": round(saving - without, 3),
        "seconds_of_a_save": round(alone, 3),
        "stall_at_default": round((saving - without) / Checkpoint().seconds, 5),
    }


def training(rows: int, folder: Path, stretches: Stretches) -> Training:
    """PENCIL in its correction phase on noise."""
    names = tuple(map(str, range(CLASSES)))
    labels = GivenLabels.of(torch.arange(rows) % CLASSES, CLASSES)
    runtime = Runtime(device=CPU)
    model = build_model("mlp", num_classes=CLASSES, input_shape=(DIMS,), args={"hidden": [1024]})
    phases = (Phase(name="correction", epochs=1, learning_rate=0.01),)
    return Training(
        runtime=runtime,
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.0, momentum=0.9),
        learner=LabelLearner(Pencil(), labels, phases, store="top:8"),
        sampler=EpochSampler(rows, BATCH),
        preparation=Preparation(device=CPU),
        train=Examples(RandomInputs(rows), labels, names, RowNumbers(rows)),
        indices=torch.arange(rows),
        checkpoints=Checkpoints(folder, runtime),
        checkpoint_seconds=float("inf"),
        events=Events([stretches]),
    )


if __name__ == "__main__":
    main()
