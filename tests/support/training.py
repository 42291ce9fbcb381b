"""A small problem with a known answer, and everything needed to train on it."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.optim import SGD, AdamW

from pencil.algorithm import Pencil, three_phases
from pencil.algorithm.transition import symmetric_matrix
from pencil.data import (
    Augment,
    EpochSampler,
    Examples,
    Preparation,
    RowNumbers,
    Splits,
    TensorInputs,
    transition_noise,
)
from pencil.engine import Checkpoints, Events, JsonLines, LabelLearner, Loop, Runtime, Training
from pencil.models import build_model
from pencil.stores import GivenLabels

CPU = torch.device("cpu")
OPTIMIZERS = {
    "sgd": lambda weights: SGD(weights, lr=0.0, momentum=0.9, weight_decay=0.005),
    "adamw": lambda weights: AdamW(weights, lr=0.0, weight_decay=0.01),
}


@dataclass(frozen=True)
class Points:
    """Well separated points (N, D), their noisy and their true labels (N,), and as many to test on."""

    values: NDArray
    noisy: NDArray
    true: NDArray
    test_values: NDArray
    test_true: NDArray


def make_points() -> Points:
    rng = np.random.default_rng(0)
    names = np.array(["ant", "bee", "cow", "żubr"])
    numbers = rng.integers(4, size=400)
    values = 4 * np.eye(8)[numbers] + rng.normal(size=(400, 8))
    other = names[(numbers + rng.integers(1, 4, size=400)) % 4]
    noisy = np.where(rng.random(400) < 0.3, other, names[numbers])
    true = names[numbers]
    return Points(values[:200], noisy[:200], true[:200], values[200:], true[200:])


def examples(values, labels, classes, reference=None) -> Examples:
    return Examples(
        inputs=TensorInputs(values),
        labels=GivenLabels.of(labels, classes),
        class_names=tuple(map(str, range(classes))),
        ids=RowNumbers(len(values)),
        reference=reference,
    )


def make_blobs(rows=600, classes=10, dims=20, noise=0.4, seed=0) -> Splits:
    """Well separated Gaussian blobs; the training labels carry symmetric noise, the test labels none."""
    generator = torch.Generator().manual_seed(seed)
    centers = 6 * torch.nn.functional.normalize(torch.randn(classes, dims, generator=generator))
    labels = torch.randint(classes, (2 * rows,), generator=generator)
    values = centers[labels] + torch.randn(2 * rows, dims, generator=generator)
    noisy = transition_noise(labels[:rows], symmetric_matrix(classes, noise), generator)
    return Splits(
        train=examples(values[:rows], noisy, classes, reference=labels[:rows]),
        test=examples(values[rows:], labels[rows:], classes),
    )


def make_images(rows=36, classes=3, size=8, seed=0) -> Splits:
    """Tiny uint8 images of noise: nothing to learn, but everything an image run goes through."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(256, (rows, 3, size, size), generator=generator, dtype=torch.uint8)
    labels = torch.randint(classes, (rows,), generator=generator)
    return Splits(examples(values, labels, classes), examples(values, labels, classes))


def make_training(
    splits: Splits,
    folder: Path | None = None,
    *,
    model: str = "linear",
    args: dict[str, Any] | None = None,
    optimizer: str = "sgd",
    method: Any = None,
    epochs: tuple[int, int, int] = (1, 2, 1),
    rate: float = 0.02,
    batch_size: int = 60,
    augment: Augment | None = None,
    runtime: Runtime | None = None,
    keep: int = 2,
    **rest: Any,
) -> Training:
    """A training from its parts; two calls alike give two trainings alike."""
    runtime = runtime or Runtime(device=CPU)
    torch.manual_seed(7)
    shape = tuple(splits.train.inputs.fetch(torch.tensor([0])).shape[1:])
    network = build_model(model, num_classes=splits.train.num_classes, input_shape=shape, args=args)
    network = runtime.place(network)
    phases = three_phases(*epochs, learning_rate=rate, finetune_rate=rate)
    return Training(
        runtime=runtime,
        model=network,
        optimizer=OPTIMIZERS[optimizer](network.parameters()),
        learner=LabelLearner(method or Pencil(label_rate=4.0), splits.train.labels, phases),
        sampler=EpochSampler(len(splits.train), batch_size, seed=3),
        preparation=Preparation(device=CPU, augment=augment, seed=5, channels_last=runtime.channels_last),
        train=splits.train,
        indices=torch.arange(len(splits.train)),
        test=splits.test,
        checkpoints=None if folder is None else Checkpoints(folder / "checkpoints", runtime, keep),
        **rest,
    )


def carry_on(training: Training, metrics: Path, listeners=()) -> tuple[Loop, bool]:
    """Resume where there is something to resume from, then run, as ``pencil.run`` does."""
    loop = Loop(training)
    loop.resume()
    training.events = Events((JsonLines(metrics, resume_at=loop.step), *listeners))
    try:
        return loop, loop.run()
    finally:
        training.events.close()


def without_seconds(metrics: Path) -> list[dict[str, Any]]:
    """The metrics of a run but for the one thing two equal runs differ in."""
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    return [{name: value for name, value in line.items() if name != "seconds"} for line in lines]
