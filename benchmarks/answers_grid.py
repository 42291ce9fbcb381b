"""The problems of ``answers``: data sets as features, with given labels of known error.

CUB-200: all 5,994 training rows. CIFAR-100: 10,000 of the 50,000 training rows, drawn by seed. CIFAR-10: every fifth of
the 50,000, the same for all seeds, so that labels given by people there are measured with the first seed only. The
noise is drawn by seed. Imbalanced problems keep 10^(-c/(C - 1)) of the rows of true class c: the first class has ten
times as many as the last.
"""

from __future__ import annotations

import functools
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import data_folder
from torch import Tensor

from pencil.bench import Grid
from pencil.config import RunConfig
from pencil.data import Examples
from pencil.run import prepare_examples
from pencil.stores import GivenLabels

GRIDS = Path(__file__).parent / "grids"
CLEAN = {"kind": "symmetric", "rate": 0.0}
SETS = ("cub", "cifar10", "cifar100")
Table = dict[str, Any]


@dataclass(frozen=True)
class Noise:
    """A noise of the grid.

    Attributes:
        name: Its name.
        settings: ``data.noise`` of a run; for people the column of CIFAR-N.
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
        Noise("clean", CLEAN, near_uniform=True),
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
    names = {"random_label1": "people_random1", "noisy_label": "people"}
    return [
        Noise(names.get(column, f"people_{column.removesuffix('_label')}"), {"column": column}, people=True)
        for column in columns.get(data, ())
    ]


def people_labels(data: str, column: str, rows: Tensor) -> Tensor:
    """(N,) the labels that people gave to these official training rows."""
    with np.load(data_folder() / "cifar" / f"{data}n.npz") as arrays:
        return torch.from_numpy(arrays[column].astype(np.int64))[rows]


def official_rows(data: str, examples: Examples) -> Tensor:
    """(N,) the numbers of the rows in the official training set."""
    numbers = torch.tensor([int(name) for name in examples.ids])
    with np.load(files()[data]) as arrays:
        return torch.from_numpy(arrays["rows"])[numbers] if "rows" in arrays else numbers


def files() -> dict[str, Path]:
    """The file of each set."""
    folder = data_folder()
    return {
        "cub": folder / "cub" / "cub200_2011_lite0_224_feat.npz",
        "cifar10": Path(os.environ.get("CIFAR10_FEATURES", "CIFAR10_FEATURES is not set")),
        "cifar100": folder / "cifar" / "cifar100_lite0_128_pca384.npz",
    }


def available() -> list[str]:
    """The sets whose files are here; a message on stderr names the others."""
    for name, path in files().items():
        if not path.is_file():
            print(f"{name} is skipped: no file {path}", file=sys.stderr)
    return [name for name, path in files().items() if path.is_file()]


def problem(data: str, noise: Noise, seed: int) -> Problem:
    """Read the rows and draw the noise."""
    table = method_config(data, "cross_entropy", seed).table()
    table["data"] |= {"noise": CLEAN if noise.people else noise.settings, "validation": 0.0}
    examples = prepare_examples(RunConfig.of(table).data, seed).train
    if noise.people:
        labels = people_labels(data, noise.settings["column"], official_rows(data, examples))
        examples = replace(examples, labels=GivenLabels.of(labels, examples.num_classes))
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


@functools.cache
def _grid(data: str) -> Grid:
    return Grid.read(GRIDS / f"{data}_features.toml")


def method_config(data: str, method: str, seed: int) -> RunConfig:
    """The settings that the comparison's grid gives a method on this set; its noise and data are replaced."""
    cells = _grid(data).cells([f"method={method}", "noise=symmetric_40"])
    table = cells[0].config.table()
    return RunConfig.of({**table, "seed": seed})
