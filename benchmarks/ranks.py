"""What two ranks gain over one, beside a bare program by hand: PreAct ResNet-20, batches of 64 small images a rank.

    python benchmarks/ranks.py [--rounds 60] [--quick] [--json]

Four programs take turns, a few steps each, in processes that stay alive: ours and a bare one, alone and as two ranks of
one thread each. All have the same network, images, augmentation and optimiser; the bare ones use
DistributedDataParallel and cross entropy and nothing of our loop. ``efficiency``: images a second of two ranks over
twice those of one; ``efficiency_over_bare``: ours over theirs, the median over the rounds, so that what else the
machine does mostly cancels.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import sys
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.multiprocessing as mp
from common import finish
from torch import Tensor
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from pencil.algorithm import Pencil, Phase
from pencil.data import (
    Augment,
    EpochSampler,
    Examples,
    Normalize,
    Preparation,
    RowNumbers,
    TensorInputs,
    owned_indices,
)
from pencil.engine import LabelLearner, Loop, Runtime, Training
from pencil.models import build_model
from pencil.stores import GivenLabels

BATCH, ROWS, CLASSES = 64, 1024, 10  # of one rank
PROGRAMS = ("ours-1", "bare-1", "ours-2", "bare-2")
CPU = torch.device("cpu")


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--steps", type=int, default=1, help="steps of each program in a round")
    parser.add_argument("--quick", action="store_true", help="20 rounds")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rounds = 20 if arguments.quick else arguments.rounds
    finish(figures(measured(rounds, arguments.steps), arguments.steps), as_json=arguments.json)


def measured(rounds: int, steps: int) -> dict[str, list[float]]:
    """Seconds of each program's turn in each round; the order of turns reverses every round."""
    os.environ |= {"OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1"}
    programs = {name: Program(name) for name in PROGRAMS}
    try:
        for program in programs.values():
            program.turn(2)  # warms up
        taken: dict[str, list[float]] = {name: [] for name in PROGRAMS}
        for number in range(rounds):
            for name in PROGRAMS if number % 2 else reversed(PROGRAMS):
                taken[name].append(programs[name].turn(steps))
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
    finally:
        for program in programs.values():
            program.close()
    return taken


def figures(taken: dict[str, list[float]], steps: int) -> dict[str, float]:
    """Efficiencies by round, then medians."""
    ours = [one / two for one, two in zip(taken["ours-1"], taken["ours-2"], strict=True)]
    bare = [one / two for one, two in zip(taken["bare-1"], taken["bare-2"], strict=True)]
    values = {
        "efficiency_over_bare": statistics.median(a / b for a, b in zip(ours, bare, strict=True)),
        "efficiency": statistics.median(ours),
        "efficiency_bare": statistics.median(bare),
        "images_per_second_1": steps * BATCH / statistics.median(taken["ours-1"]),
        "images_per_second_2": 2 * steps * BATCH / statistics.median(taken["ours-2"]),
        "rounds": len(ours),
    }
    return {name: round(value, 4) for name, value in values.items()}


class Program:
    """One of the four: the processes of its ranks, which work only when told to."""

    def __init__(self, name: str) -> None:
        kind, world_size = name.split("-")
        port, context = free_port(), mp.get_context("spawn")
        self.ranks = []
        for rank in range(int(world_size)):
            here, there = context.Pipe()
            arguments = (kind, rank, int(world_size), port, there)
            process = context.Process(target=one_rank, args=arguments, daemon=True)
            process.start()
            self.ranks.append((process, here))

    def turn(self, steps: int) -> float:
        """Seconds that all ranks together need for some steps."""
        begun = time.perf_counter()
        for _, pipe in self.ranks:
            pipe.send(steps)
        for _, pipe in self.ranks:
            pipe.recv()
        return time.perf_counter() - begun

    def close(self) -> None:
        """End the processes."""
        for process, _ in self.ranks:
            process.kill()
            process.join()


def one_rank(kind: str, rank: int, world_size: int, port: int, pipe: Connection[Any, int]) -> None:
    """Take as many steps as one is told, and say when they are done."""
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(world_size), "MASTER_PORT": str(port)}
    runtime = Runtime.start("cpu", channels_last=True)
    turns = Turns(pipe)
    if kind == "ours":
        our_steps(runtime, turns)
    else:
        for _ in bare_steps(runtime):
            turns.step_done()


class Turns:
    """Waits until steps are wanted."""

    def __init__(self, pipe: Connection[Any, int]) -> None:
        self._pipe, self._left = pipe, pipe.recv()

    def step_done(self) -> None:
        """Count a step; after the last one wanted tell so, and wait."""
        self._left -= 1
        if self._left == 0:
            self._pipe.send(True)
            self._left = self._pipe.recv()


class Turning(Loop):
    """Our loop; only the main rank has listeners, but each must wait for its turn."""

    turns: Turns

    def _emit(self, kind: Any, **values: Any) -> None:
        super()._emit(kind, **values)
        if kind == "step":
            self.turns.step_done()


def our_steps(runtime: Runtime, turns: Turns) -> None:
    """Our loop, with PENCIL correcting labels."""
    indices = owned_indices(ROWS * runtime.world_size, runtime.rank, runtime.world_size)
    model = runtime.network(network(runtime))
    mine = random_examples(runtime.rank)
    loop = Turning(
        Training(
            runtime=runtime,
            model=model,
            optimizer=optimizer_of(model),
            learner=LabelLearner(
                Pencil(), mine.labels, (Phase(name="correction", epochs=1000, learning_rate=0.01),)
            ),
            sampler=EpochSampler(
                ROWS * runtime.world_size, BATCH * runtime.world_size, 0, runtime.rank, runtime.world_size
            ),
            preparation=preparation(),
            train=mine,
            indices=indices,
        )
    )
    loop.turns = turns
    loop.run()


def bare_steps(runtime: Runtime) -> Iterator[None]:
    """The program one would write by hand, with the same ingredients."""
    model: torch.nn.Module = network(runtime)
    if runtime.world_size > 1:
        model = DistributedDataParallel(model)
    optimizer, prepare, mine = optimizer_of(model), preparation(), random_examples(runtime.rank)
    labels = mine.labels.hard
    model.train()
    for epoch in range(1000):
        for rows in torch.randperm(ROWS).split(BATCH):
            images = prepare.training(mine.inputs.fetch(rows), rows, epoch)
            optimizer.zero_grad()
            F.cross_entropy(model(images), labels[rows]).backward()
            optimizer.step()
            yield


def network(runtime: Runtime) -> torch.nn.Module:
    """The backbone, alike everywhere."""
    torch.manual_seed(0)
    return runtime.place(build_model("preact_resnet20", num_classes=CLASSES, input_shape=(3, 32, 32)))


def optimizer_of(model: torch.nn.Module) -> torch.optim.Optimizer:
    """SGD with momentum."""
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)


def preparation() -> Preparation:
    """Normalised, padded, cut and flipped."""
    return Preparation(
        device=CPU,
        normalize=Normalize((0.5, 0.5, 0.5), (0.25, 0.25, 0.25)),
        augment=Augment(pad=4, crop=32, flip=True),
        channels_last=True,
    )


def random_examples(seed: int) -> Examples:
    """Images of noise with labels of noise: only the time matters."""
    generator = torch.Generator().manual_seed(seed)
    images: Tensor = torch.randint(0, 256, (ROWS, 3, 32, 32), dtype=torch.uint8, generator=generator)
    labels = GivenLabels.of(torch.randint(CLASSES, (ROWS,), generator=generator), CLASSES)
    return Examples(TensorInputs(images), labels, tuple(map(str, range(CLASSES))), RowNumbers(ROWS))


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


if __name__ == "__main__":
    main()
