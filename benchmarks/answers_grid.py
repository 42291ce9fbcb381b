"""The problems of ``answers``: data sets as features, with given labels of known error.

CUB-200: all 5,994 training rows. CIFAR-10 and CIFAR-100: 10,000 of the 50,000 training rows, drawn by seed. The noise
is drawn by seed too, so that labels given by people differ between seeds through their rows. Imbalanced problems keep
n_c = 10^(-c/(C - 1)) of the rows of true class c: the first class has ten times as many as the last.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from common import data_folder
from torch import Tensor

from pencil.bench import Grid
from pencil.config import RunConfig
from pencil.data import Examples
from pencil.run import prepare_examples

GRIDS = Path(__file__).parent / "grids"
SETS = ("cub", "cifar10", "cifar100")
Table = dict[str, Any]


@dataclass(frozen=True)
class Noise:
    """A noise of the grid.

    Attributes:
        name: Its name.
        settings: ``data.noise`` of a run.
        near_uniform: Whether an error falls on all other classes about equally; clean labels count.
        imbalanced: Whether classes have 1:10 rows.
        people: Whether people made the errors.
    """

    name: str
    settings: Table
    near_uniform: bool = False
    imbalanced: bool = False
    people: bool = False


@dataclass(frozen=True)
class Problem:
    """Rows with given and true labels.

    Attributes:
        data, noise, seed: Which.
        examples: The rows; ``reference`` has the true labels.
        features: (N, D) float32.
        given: (N,) the labels that a method sees.
        truth: (N,) the true labels.
    """

    data: str
    noise: Noise
    seed: int
    examples: Examples
    features: Tensor
    given: Tensor
    truth: Tensor

    @property
    def wrong(self) -> Tensor:
        """(N,) bool, the rows whose given label is wrong."""
        return self.given != self.truth

    @property
    def num_classes(self) -> int:
        """C."""
        return self.examples.num_classes


def noises(data: str) -> list[Noise]:
    """The noises of a data set."""
    symmetric = [_rate("symmetric", percent, near_uniform=True) for percent in (10, 20, 40, 60)]
    structured = "cifar10" if data == "cifar10" else "circular"
    return [
        Noise("clean", {"kind": "symmetric", "rate": 0.0}, near_uniform=True),
        *symmetric,
        *(_rate(structured, percent) for percent in (20, 40)),
        _rate("instance", 40, near_uniform=True),
        Noise("imbalanced_symmetric_40", symmetric[2].settings, near_uniform=True, imbalanced=True),
        *_people(data),
    ]


def _rate(kind: str, percent: int, *, near_uniform: bool = False) -> Noise:
    name = "asymmetric" if kind == "cifar10" else kind
    return Noise(f"{name}_{percent}", {"kind": kind, "rate": percent / 100}, near_uniform)


def _people(data: str) -> list[Noise]:
    columns = {"cifar10": ("aggre_label", "random_label1", "worse_label"), "cifar100": ("noisy_label",)}
    path = data_folder() / "cifar" / f"{data}n.npz"
    names = {"random_label1": "people_random1", "noisy_label": "people"}
    return [
        Noise(
            names.get(column, f"people_{column.removesuffix('_label')}"),
            {"kind": "file", "path": str(path), "key": column},
            people=True,
        )
        for column in columns.get(data, ())
    ]


def available() -> Iterator[str]:
    """The sets whose files are here; a message on stderr names the others."""
    import sys

    folder = data_folder()
    files = {
        "cub": folder / "cub" / "cub200_2011_lite0_224_feat.npz",
        "cifar10": Path(os.environ.get("CIFAR10_FEATURES", "CIFAR10_FEATURES is not set")),
        "cifar100": folder / "cifar" / "cifar100_lite0_128_pca384.npz",
    }
    for name in SETS:
        if files[name].is_file():
            yield name
        else:
            print(f"{name} is skipped: no file {files[name]}", file=sys.stderr)


def problem(data: str, noise: Noise, seed: int) -> Problem:
    """Read the rows and draw the noise."""
    table = method_config(data, "cross_entropy", seed).table()
    table["data"] |= {"noise": noise.settings, "validation": 0.0}
    config = RunConfig.of(table)
    examples = prepare_examples(config.data, seed).train
    assert examples.reference is not None
    if noise.imbalanced:
        examples = examples.subset(imbalanced_rows(examples.reference, examples.num_classes, seed))
    features = examples.inputs.fetch(torch.arange(len(examples))).flatten(1).float()
    assert examples.reference is not None
    return Problem(data, noise, seed, examples, features, examples.labels.hard, examples.reference)


def imbalanced_rows(truth: Tensor, num_classes: int, seed: int) -> Tensor:
    """Rows (M,) in order, of which class c keeps 10^(-c/(C - 1)), drawn by seed."""
    keep = 10 ** (-torch.arange(num_classes) / (num_classes - 1))
    order = torch.randperm(len(truth), generator=torch.Generator().manual_seed(seed))
    rows = []
    for label in range(num_classes):
        own = order[truth[order] == label]
        rows.append(own[: round(float(keep[label]) * len(own))])
    return torch.cat(rows).sort().values


def method_config(data: str, method: str, seed: int) -> RunConfig:
    """The settings that the comparison's grid gives a method on this set; its noise and data are replaced."""
    cells = Grid.read(GRIDS / f"{data}_features.toml").cells([f"method={method}", "noise=symmetric_40"])
    table = cells[0].config.table()
    return RunConfig.of({**table, "seed": seed})
