"""What PENCIL and this package's loop cost, on PreAct ResNet-32 with batches of 128 small images.

    python benchmarks/overhead.py [--repeats 30] [--json]

One process; the two things compared take turns, step by step, and each figure is a ratio of medians.
``pencil_over_cross_entropy_c*``: a training step with PENCIL in its correction phase over the same step with cross
entropy. ``loop_over_bare``: our loop, from row numbers to the optimiser's step, over a hand-written one with the same
network, data, augmentation and optimiser.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator

import torch
from common import finish
from torch import Tensor
from torch.nn import functional as F

from pencil.algorithm import Pencil, Phase
from pencil.data import Augment, EpochSampler, Examples, Normalize, Preparation, RowNumbers, TensorInputs
from pencil.engine import Event, Events, LabelLearner, Loop, Runtime, Training
from pencil.methods import CrossEntropy, Method
from pencil.models import build_model
from pencil.stores import GivenLabels

BATCH = 128
ROWS = 2048
CORRECTION = (Phase(name="correction", epochs=1000, learning_rate=0.01),)
RUNTIME = Runtime(device=torch.device("cpu"), precision="bf16", channels_last=True)
PREPARATION = Preparation(
    device=torch.device("cpu"),
    normalize=Normalize((0.5, 0.5, 0.5), (0.25, 0.25, 0.25)),
    augment=Augment(pad=4, crop=32, flip=True),
    channels_last=True,
)


def main() -> None:
    """Measure all, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    figures = {}
    for classes in (10, 100, 1000):
        figures[f"pencil_over_cross_entropy_c{classes}"] = step_ratio(classes, arguments.repeats)
        print(f"c = {classes} measured", file=sys.stderr)
    figures["loop_over_bare"] = loop_ratio(arguments.repeats)
    finish({name: round(value, 4) for name, value in figures.items()}, as_json=arguments.json)


def step_ratio(classes: int, repeats: int) -> float:
    """Median step with PENCIL over median step with cross entropy, taking turns."""
    steps = [training_steps(method, classes) for method in (CrossEntropy(), Pencil())]
    times = [timed(step) for _ in range(repeats + 2) for step in steps][4:]  # the first two rounds warm up
    return statistics.median(times[1::2]) / statistics.median(times[::2])


def training_steps(method: Method, classes: int) -> Iterator[None]:
    """Whole training steps, one per ``next``: forward, loss, backward, optimiser, labels."""
    examples = random_examples(classes)
    model = RUNTIME.place(build_model("preact_resnet32", num_classes=classes, input_shape=(3, 32, 32)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    learner = LabelLearner(method, examples.labels, CORRECTION)
    learner.epoch = 0.5  # it stays within the phase
    while True:
        for indices in torch.randperm(ROWS).split(BATCH):
            images = PREPARATION.training(examples.inputs.fetch(indices), indices, 0)
            optimizer.zero_grad()
            with RUNTIME.autocast():
                logits = model(images)
            learner.loss(logits, indices).backward()
            optimizer.step()
            learner.step()
            yield


def loop_ratio(repeats: int) -> float:
    """Median step of our loop over a bare one's; the bare step runs between two of ours."""
    turns = TakeTurns(bare_steps())
    examples = random_examples(10)
    model = RUNTIME.place(build_model("preact_resnet32", num_classes=10, input_shape=(3, 32, 32)))
    epochs = -(-(repeats + 2) // (ROWS // BATCH))
    training = Training(
        runtime=RUNTIME,
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4),
        learner=LabelLearner(
            CrossEntropy(), examples.labels, (Phase(name="backbone", epochs=epochs, learning_rate=0.01),)
        ),
        sampler=EpochSampler(ROWS, BATCH),
        preparation=PREPARATION,
        train=examples,
        indices=torch.arange(ROWS),
        events=Events([turns]),
    )
    Loop(training).run()
    return statistics.median(turns.ours[2:]) / statistics.median(turns.bare[2:])


class TakeTurns:
    """Hears the end of each of our steps and then takes a bare one."""

    def __init__(self, bare: Iterator[None]) -> None:
        self.ours: list[float] = []
        self.bare: list[float] = []
        self._steps = bare
        self._since = time.perf_counter()

    def handle(self, event: Event) -> None:
        """Note the time of our step, then run and time a bare one."""
        if event.kind == "step":
            self.ours.append(time.perf_counter() - self._since)
            self.bare.append(timed(self._steps))
        self._since = time.perf_counter()

    def close(self) -> None:
        """Nothing to close."""


def bare_steps() -> Iterator[None]:
    """The loop one would write by hand, with the same ingredients."""
    examples = random_examples(10)
    model = RUNTIME.place(build_model("preact_resnet32", num_classes=10, input_shape=(3, 32, 32)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    labels = examples.labels.hard
    while True:
        for rows in torch.randperm(ROWS).split(BATCH):
            images = PREPARATION.training(examples.inputs.fetch(rows), rows, 0)
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                logits = model(images)
            F.cross_entropy(logits.float(), labels[rows]).backward()
            optimizer.step()
            yield


def random_examples(classes: int) -> Examples:
    """Images of noise with labels of noise: only the time matters."""
    generator = torch.Generator().manual_seed(0)
    images: Tensor = torch.randint(0, 256, (ROWS, 3, 32, 32), dtype=torch.uint8, generator=generator)
    labels = GivenLabels.of(torch.randint(classes, (ROWS,), generator=generator), classes)
    names = tuple(str(index) for index in range(classes))
    return Examples(TensorInputs(images), labels, names, RowNumbers(ROWS))


def timed(steps: Iterator[None]) -> float:
    """Seconds one step takes."""
    advance: Callable[[], None] = steps.__next__
    begun = time.perf_counter()
    advance()
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
