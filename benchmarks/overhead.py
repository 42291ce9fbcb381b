"""What PENCIL and this package's loop cost, on PreAct ResNet-32 with batches of 128 small images.

    python benchmarks/overhead.py [--pairs 24] [--json] [--write]

One process with one thread. Two kinds of step alternate, single steps with the same network; the order within a pair
changes from pair to pair. Each figure is the median of the ratios of neighbouring steps, in seconds of the processor,
so that other work on the machine counts less. ``*_from`` and ``*_to`` are its 95 % confidence interval, for
independent pairs.

``pencil_over_cross_entropy_c*``: a training step with PENCIL in its correction phase over the same step, with the same
batch, with cross entropy. ``by_parts_c*``: the same ratio, but only what depends on the method (loss, its gradient by
the logits, label rows) is taken from each step; the rest, which is the same work, counts with the mean of the pair.
This varies far less under load, and does not see whether PENCIL slows the rest down. ``extra_milliseconds_c*``: how
much longer the part takes that depends on the method.
``loop_over_bare``: our loop, from row numbers to the optimiser's step, over a hand-written one with the same data,
augmentation and optimiser. ``--write`` appends a reading to results/overhead.jsonl.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from common import finish
from torch import Tensor
from torch.nn import functional as F

from pencil.algorithm import Pencil, Phase
from pencil.data import Augment, EpochSampler, Examples, Normalize, Preparation, RowNumbers, TensorInputs
from pencil.engine import Event, Events, LabelLearner, Loop, Runtime, Training, read_json_lines
from pencil.methods import CrossEntropy
from pencil.models import build_model
from pencil.stores import GivenLabels

RECORDED = Path(__file__).parent / "results" / "overhead.jsonl"
BATCH = 128
ROWS = 2048
WARM_UP = 2
GOALS = {
    **{f"by_parts_c{classes}": goal for classes, goal in ((10, 1.01), (100, 1.01), (1000, 1.02))},
    **{
        f"pencil_over_cross_entropy_c{classes}": goal
        for classes, goal in ((10, 1.01), (100, 1.01), (1000, 1.02))
    },
    "loop_over_bare": 1.03,
}
CORRECTION = (Phase(name="correction", epochs=1000, learning_rate=0.01),)
RUNTIME = Runtime.start("cpu", "auto", channels_last=True)
PREPARATION = Preparation(
    device=torch.device("cpu"),
    normalize=Normalize((0.5, 0.5, 0.5), (0.25, 0.25, 0.25)),
    augment=Augment(pad=4, crop=32, flip=True),
    channels_last=True,
)


def main() -> None:
    """Measure all, print, record if asked to."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=24, help="pairs of steps for each figure")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", action="store_true", help=f"append the reading to {RECORDED.name}")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    ratios: dict[str, list[float]] = {}
    figures: dict[str, float] = {"pairs": arguments.pairs}
    for classes in (10, 100, 1000):
        pairs = step_pairs(classes, arguments.pairs)
        ratios[f"by_parts_c{classes}"] = [by_parts(*pair) for pair in pairs]
        ratios[f"pencil_over_cross_entropy_c{classes}"] = [
            pencil.step / plain.step for plain, pencil in pairs
        ]
        figures |= costs(pairs, classes)
        print(f"c = {classes} measured", file=sys.stderr)
    ratios["loop_over_bare"] = loop_ratios(arguments.pairs)
    if arguments.write:
        write(figures, ratios)
    finish({**figures, **intervals(ratios)}, as_json=arguments.json)


def write(figures: Mapping[str, float], ratios: Mapping[str, Sequence[float]]) -> None:
    """Append a reading with the ratio of every pair."""
    kept = {name: [round(value, 4) for value in values] for name, values in ratios.items()}
    line = {**figures, "precision": RUNTIME.precision, "ratios": kept}
    with RECORDED.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


# The ratio of neighbouring steps


@dataclass(frozen=True)
class Taken:
    """Seconds of the processor that a step took.

    Attributes:
        step: All of it.
        labels: The part that depends on the method: loss, its gradient by the logits, label rows.
    """

    step: float
    labels: float


Pair = tuple[Taken, Taken]
"""Neighbouring steps: the first kind of step and the second, in whichever order they ran."""


def alternated(
    first: Callable[[Tensor], Taken], second: Callable[[Tensor], Taken], batches: Iterator[Tensor], pairs: int
) -> list[Pair]:
    """Pairs of steps, each pair on one batch; the second kind of step runs first in every other pair."""
    found: list[Pair] = []
    for number in range(pairs):
        rows = next(batches)
        if number % 2:
            after = second(rows)
            found.append((first(rows), after))
        else:
            found.append((first(rows), second(rows)))
    return found


def intervals(ratios: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """The median of each with its 95 % confidence interval, as figures."""
    found: dict[str, float] = {}
    for name, values in ratios.items():
        least, most = median_interval(values)
        found |= {name: statistics.median(values), f"{name}_from": least, f"{name}_to": most}
    return {name: round(value, 4) for name, value in found.items()}


def median_interval(values: Sequence[float], outside: float = 0.05) -> tuple[float, float]:
    """Order statistics that enclose the median of the distribution with probability 1 - ``outside`` or more.

    Of n independent values the number below the median is binomial (n, 1/2), for any continuous distribution. With
    fewer than six values no pair of them is that certain; the least and the largest are returned.
    """
    ordered, count = sorted(values), len(values)
    dropped, tail = 0, 1.0
    while 2 * (tail + math.comb(count, dropped + 1)) <= outside * 2.0**count:
        dropped += 1
        tail += math.comb(count, dropped)
    return ordered[dropped], ordered[count - 1 - dropped]


# PENCIL over cross entropy


def step_pairs(classes: int, pairs: int) -> list[Pair]:
    """Steps with cross entropy and with PENCIL, for one number of classes."""
    trainer = Trainer(classes)
    plain, pencil = (
        trainer.steps_of(LabelLearner(method, trainer.examples.labels, CORRECTION))
        for method in (CrossEntropy(), Pencil())
    )
    return alternated(plain, pencil, batches(), pairs + WARM_UP)[WARM_UP:]


def by_parts(plain: Taken, pencil: Taken) -> float:
    """The ratio of two steps if what does not depend on the method took the same time in both."""
    rest = (plain.step - plain.labels + pencil.step - pencil.labels) / 2
    return (rest + pencil.labels) / (rest + plain.labels)


def costs(pairs: Sequence[Pair], classes: int) -> dict[str, float]:
    """Seconds of a step with cross entropy, and milliseconds that PENCIL adds to it."""
    step = statistics.median(plain.step for plain, _ in pairs)
    extra = statistics.median(pencil.labels - plain.labels for plain, pencil in pairs)
    return {
        f"step_seconds_c{classes}": round(step, 3),
        f"extra_milliseconds_c{classes}": round(1000 * extra, 2),
    }


class Trainer:
    """A network with its optimiser and images, which steps of every kind share."""

    def __init__(self, classes: int) -> None:
        self.examples = random_examples(classes)
        self.model = RUNTIME.place(
            build_model("preact_resnet32", num_classes=classes, input_shape=(3, 32, 32))
        )
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)

    def steps_of(self, learner: LabelLearner) -> Callable[[Tensor], Taken]:
        """Whole training steps: images, forward, loss, backward, optimiser, labels."""
        learner.epoch = 0.5  # it stays within the phase

        def step(rows: Tensor) -> Taken:
            begun = time.process_time()
            logits = self.forward(rows)
            cut = logits.detach().requires_grad_()  # the same gradients, and the loss can be timed apart
            since = time.process_time()
            learner.loss(cut, rows).backward()
            labels = time.process_time() - since
            logits.backward(cut.grad)
            self.optimizer.step()
            since = time.process_time()
            learner.step()
            end = time.process_time()
            return Taken(end - begun, labels + end - since)

        return step

    def forward(self, rows: Tensor) -> Tensor:
        """Logits of augmented images, with the old gradients dropped."""
        images = PREPARATION.training(self.examples.inputs.fetch(rows), rows, 0)
        self.optimizer.zero_grad()
        with RUNTIME.autocast():
            logits: Tensor = self.model(images)
        return logits


def batches() -> Iterator[Tensor]:
    """Row numbers of one batch after another, without end."""
    while True:
        yield from torch.randperm(ROWS).split(BATCH)


# Our loop over a bare one


def loop_ratios(pairs: int) -> list[float]:
    """Steps of our loop over bare ones with the same network; a bare step runs between two of ours."""
    trainer = Trainer(10)
    turns = TakeTurns(bare_steps(trainer))
    epochs = -(-(pairs + WARM_UP) // (ROWS // BATCH))
    training = Training(
        runtime=RUNTIME,
        model=trainer.model,
        optimizer=trainer.optimizer,
        learner=LabelLearner(
            CrossEntropy(),
            trainer.examples.labels,
            (Phase(name="backbone", epochs=epochs, learning_rate=0.01),),
        ),
        sampler=EpochSampler(ROWS, BATCH),
        preparation=PREPARATION,
        train=trainer.examples,
        indices=torch.arange(ROWS),
        events=Events([turns]),
    )
    Loop(training).run()
    return [ours / bare for ours, bare in zip(turns.ours, turns.bare, strict=True)][WARM_UP:]


class TakeTurns:
    """Receives the end of each of our steps and then takes a bare one."""

    def __init__(self, bare: Iterator[None]) -> None:
        self.ours: list[float] = []
        self.bare: list[float] = []
        self._steps = bare
        self._since = time.process_time()

    def handle(self, event: Event) -> None:
        """Record the time of our step, then run and time a bare one."""
        if event.kind == "step":
            self.ours.append(time.process_time() - self._since)
            begun = time.process_time()
            next(self._steps)
            self.bare.append(time.process_time() - begun)
        self._since = time.process_time()

    def close(self) -> None:
        """Nothing to close."""


def bare_steps(trainer: Trainer) -> Iterator[None]:
    """The loop one would write by hand, with the same ingredients."""
    labels = trainer.examples.labels.hard
    for rows in batches():
        F.cross_entropy(trainer.forward(rows).float(), labels[rows]).backward()
        trainer.optimizer.step()
        yield


def random_examples(classes: int) -> Examples:
    """Images of noise with labels of noise: only the time matters."""
    generator = torch.Generator().manual_seed(0)
    images: Tensor = torch.randint(0, 256, (ROWS, 3, 32, 32), dtype=torch.uint8, generator=generator)
    labels = GivenLabels.of(torch.randint(classes, (ROWS,), generator=generator), classes)
    names = tuple(str(index) for index in range(classes))
    return Examples(TensorInputs(images), labels, names, RowNumbers(ROWS))


# What the docs show


def table(readings: Sequence[Mapping[str, Any]]) -> str:
    """The recorded readings as a table of Markdown, a line per figure."""
    lines = [
        "| figure | goal | all pairs: median, 95 % interval | median of each measurement |",
        "|---|---|---|---|",
    ]
    for name, goal in GOALS.items():
        ratios = [reading["ratios"][name] for reading in readings]
        pooled = [ratio for each in ratios for ratio in each]
        least, most = median_interval(pooled)
        singles = ", ".join(f"{statistics.median(each):.4f}" for each in ratios)
        lines.append(
            f"| `{name}` | {goal} | {statistics.median(pooled):.4f}, {least:.4f} to {most:.4f} | {singles} |"
        )
    return "\n".join(lines)


def recorded() -> list[dict[str, Any]]:
    """Every reading that was written."""
    return read_json_lines(RECORDED)


if __name__ == "__main__":
    main()
