"""What each part adds on top of PENCIL's closed-form start: soft labels, neighbours, averaged weights, a second round.

    python benchmarks/ablation.py [--write] [--json]
    python benchmarks/ablation.py --quick --json

Each line is a training in a plain loop, with the rows, network, epochs and settings of the comparison's grids:

    given       from the given labels, as in the paper
    hard        from the start's most probable class
    soft        from the start's probabilities, and held to them: the default for features
    neighbours  soft, each row's probabilities averaged with the mean of its 10 nearest rows
    average     soft, predictions by an exponential moving average of the weights (0.99 a step)
    round       soft, correction and finetune twice

All but the first two are one change to ``soft``. Seeds 100 and 101, which no comparison uses: what earns its place is
decided on held-out given labels (``validation``), and the test set is only reported. ``--write`` records each line as
it is measured; lines that are recorded are not measured again.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from common import data_folder, finish, write_lines
from torch import Tensor, nn
from torch.nn.functional import one_hot
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from pencil.algorithm import Pencil
from pencil.bench import Grid
from pencil.bench.grid import Cell
from pencil.data import Examples
from pencil.engine import LabelLearner, read_json_lines
from pencil.estimates import prototype_start
from pencil.estimates.neighbours import nearest
from pencil.models import build_model
from pencil.run import prepare_examples

RECORDED = Path(__file__).parent / "results" / "ablation.jsonl"
GRIDS = Path(__file__).parent / "grids"
PARTS = ("given", "hard", "soft", "neighbours", "average", "round")
PROBLEMS = {
    "cub": ("symmetric_80",),
    "cifar100": ("symmetric_40", "circular_40", "people"),
}
NAMES = {"cub": "CUB-200", "cifar100": "CIFAR-100"}
SEEDS = (100, 101)
NEIGHBOURS, DECAY = 10, 0.99
Line = dict[str, Any]
Problem = tuple[str, str, str, int]  # data, noise, part, seed


def main() -> None:
    """Measure and print, or record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="CIFAR-100, circular 40 %%, soft and hard, one seed"
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", action="store_true", help=f"record the lines in {RECORDED.name}")
    arguments = parser.parse_args()
    data_folder()
    torch.set_num_threads(1)
    lines = recorded() if arguments.write else []
    for problem in problems(quick=arguments.quick):
        if problem in map(problem_of, lines):
            continue
        lines.append(measured(*problem))
        print(json.dumps(lines[-1]), file=sys.stderr, flush=True)
        if arguments.write:
            write_lines(RECORDED, lines)
    finish(figures(lines), as_json=arguments.json)


def recorded() -> list[Line]:
    """Every recorded line."""
    return read_json_lines(RECORDED)


def problem_of(line: Line) -> Problem:
    """What a line was measured on."""
    return line["data"], line["noise"], line["part"], line["seed"]


def problems(*, quick: bool) -> list[Problem]:
    """What is measured."""
    if quick:
        return [("cifar100", "circular_40", part, SEEDS[0]) for part in ("hard", "soft")]
    return [
        (data, noise, part, seed)
        for data, noises in PROBLEMS.items()
        for noise in noises
        for part in PARTS
        for seed in SEEDS
    ]


def figures(lines: Sequence[Line]) -> dict[str, float]:
    """Points by which each part is above ``soft``, mean over the problems: held-out agreement, test, right labels."""
    found = {}
    for part in dict.fromkeys(line["part"] for line in lines):
        for name in ("validation", "test", "right"):
            values = [each - soft for each, soft in _pairs(lines, part, name)]
            if part != "soft" and values:
                found[f"{part}_{name}"] = round(statistics.mean(values), 2)
    return found


def table(lines: Sequence[Line]) -> str:
    """Markdown, means over seeds: agreement with held-out labels, test accuracy by problem, and right labels."""
    problems = list(dict.fromkeys((line["data"], line["noise"]) for line in lines))
    heads = [f"test: {NAMES[data]}, {noise.replace('_', ' ')}" for data, noise in problems]
    rows = [["part", "held-out agreement", *heads, "right y^d"], ["---"] * (3 + len(heads))]
    for part in dict.fromkeys(line["part"] for line in lines):
        own = [line for line in lines if line["part"] == part]
        tests = [
            _mean([each for each in own if (each["data"], each["noise"]) == it], "test") for it in problems
        ]
        rows.append([part, _mean(own, "validation"), *tests, _mean(own, "right")])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _mean(lines: Sequence[Line], name: str) -> str:
    return f"{statistics.mean(line[name] for line in lines):.1f}"


def _pairs(lines: Sequence[Line], part: str, name: str) -> list[tuple[float, float]]:
    """The value of a part and that of ``soft`` on the same problem and seed."""
    of = {(line["data"], line["noise"], line["seed"], line["part"]): line[name] for line in lines}
    return [
        (value, of[(*key, "soft")])
        for (*key, each), value in of.items()
        if each == part and (*key, "soft") in of
    ]


def measured(data: str, noise: str, part: str, seed: int) -> Line:
    """Train once; accuracies and right labels in percent."""
    config = cell(data, noise, part, seed).config
    assert isinstance(config.method, Pencil)
    found = prepare_examples(config.data, seed)
    train, given = Standardised(found.train), found.train.labels.hard
    phases = (*config.phases, *config.phases[-2:]) if part == "round" else config.phases
    torch.manual_seed(seed)
    classes = found.train.num_classes
    learner = LabelLearner(
        config.method, given, phases, num_classes=classes, start=started(part, train.raw, given, classes)
    )
    shape = tuple(train.features.shape[1:])
    model = build_model(config.model.name, num_classes=classes, input_shape=shape, args=config.model.args)
    averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(DECAY), use_buffers=True)
    run(model, averaged if part == "average" else None, learner, train.features, config)
    network = averaged if part == "average" else model
    suggested = learner.labels().suggested
    held_out, test, truth = found.validation, found.test, found.train.reference
    assert held_out is not None
    assert test is not None
    assert truth is not None
    return {
        "data": data,
        "noise": noise,
        "part": part,
        "seed": seed,
        "validation": agreement(network, train.of(held_out), held_out.labels.hard),
        "test": agreement(network, train.of(test), test.labels.hard),
        "right": round(100 * float((suggested == truth).float().mean()), 2),
    }


def cell(data: str, noise: str, part: str, seed: int) -> Cell:
    """The grid's settings: those of PENCIL for given and hard labels, those of ``auto`` for the rest."""
    own = {"given": ("pencil", "default"), "hard": ("pencil", "prototypes")}
    method, variant = own.get(part, ("auto", "default"))
    only = [f"data={data}", f"method={method}", f"noise={noise}", f"variant={variant}"]
    return _grid(data).cells(only, seeds=[seed])[0]


@functools.cache
def _grid(data: str) -> Grid:
    return Grid.read(GRIDS / f"{data}_features.toml")


class Standardised:
    """Features less their means, divided by one deviation for all, as in ``pencil train``."""

    def __init__(self, train: Examples) -> None:
        self.raw = _values(train)
        self.mean, self.deviation = self.raw.mean(0), self.raw.var(0, correction=0).mean().sqrt()
        self.features = self.of(train)

    def of(self, examples: Examples) -> Tensor:
        """(N, D) features of some examples."""
        return (_values(examples) - self.mean) / self.deviation


def _values(examples: Examples) -> Tensor:
    return examples.inputs.fetch(torch.arange(len(examples))).float()


def started(part: str, features: Tensor, given: Tensor, classes: int) -> Tensor | None:
    """The probabilities (N, C) that labels start from; None for the given labels."""
    if part == "given":
        return None
    start = prototype_start(features, given, classes)
    if part == "hard":
        return one_hot(start.argmax(1), classes).float()
    if part == "neighbours":
        near = nearest(features - features.mean(0), NEIGHBOURS).rows
        return (start + start[near].mean(1)) / 2
    return start


def run(
    model: nn.Module, averaged: AveragedModel | None, learner: LabelLearner, features: Tensor, config: Any
) -> None:
    """Train the network and the labels by the plan."""
    settings = config.optimizer
    optimizer = torch.optim.SGD(
        model.parameters(), lr=0.1, momentum=settings.momentum, weight_decay=settings.weight_decay
    )
    for _ in learner.epochs():
        model.train()
        for rows in torch.randperm(len(features)).split(config.train.batch_size):
            if len(rows) == 1:  # batch norm needs two
                continue
            optimizer.param_groups[0]["lr"] = learner.learning_rate
            loss = learner.loss(model(features[rows]), rows)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            learner.step()
            if averaged is not None:
                averaged.update_parameters(model)


def agreement(model: nn.Module, features: Tensor, labels: Tensor) -> float:
    """Percent of rows whose prediction is their label."""
    model.eval()
    with torch.no_grad():
        return round(100 * float((model(features).argmax(1) == labels).float().mean()), 2)


if __name__ == "__main__":
    main()
