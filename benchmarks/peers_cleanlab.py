"""Confident learning (cleanlab) beside cross entropy and PENCIL on CUB-200 features: accuracy, label errors, cost.

    pip install "pencil-labels[benchmark]"
    python benchmarks/peers_cleanlab.py [--quick] [--json] [--out benchmarks/results/peers_cleanlab]

cleanlab is given what its documentation asks for: probabilities of K = 5 networks for rows that they have not seen,
with its own default filter. All networks have the head, optimiser and epochs of the preset ``features``. The rows that
it calls issues are left out, and a new network learns the rest. PENCIL calls a row an error where it suggests another
class than the given one. Costs are those of everything a method needs, in seconds and in examples passed forward.
``--quick`` does symmetric 40 %, seed 0; otherwise all noises of ``cub_features.py`` and three seeds.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from common import data_folder, finish
from cub_features import NOISES, Cell, cell_config, with_noise
from torch import Tensor

from pencil.algorithm import TopRows
from pencil.config import RunConfig
from pencil.data import Splits, read_features
from pencil.errors import need
from pencil.results import LabelChunk
from pencil.run import learned_labels, predict, train
from pencil.stores import GivenLabels

FOLDS = 5  # K
METHODS = ("cross_entropy", "pencil", "cleanlab")


@dataclass(frozen=True)
class Found:
    """What a method came to; shares in percent, None where it names no errors.

    Attributes:
        seconds: Wall time of all trainings, predictions and the filter.
        forward: Examples passed forward through a network, those of all folds and the retraining included.
    """

    noise: str
    method: str
    seed: int
    test_last: float
    precision: float | None
    recall: float | None
    f1: float | None
    seconds: float
    forward: int


@dataclass(frozen=True)
class Outcome:
    """One method's work on one problem: accuracy, rows it calls wrong (N,) if any, examples passed forward."""

    accuracy: float
    called_wrong: Tensor | None
    forward: int


def main() -> None:
    """Run all cells one after the other, with one thread, and print or write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--out", type=Path, help="write OUT.jsonl and OUT.md")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    path = str(data_folder() / "cub" / "cub200_2011_lite0_224_feat.npz")
    found = []
    for cell in all_cells(path, quick=arguments.quick):
        found.append(measured(cell))
        print(found[-1], file=sys.stderr)
    if arguments.out:
        write(found, arguments.out)
    if not arguments.json:
        print(table(found))
    finish(figures(found), as_json=arguments.json)


def all_cells(path: str, *, quick: bool) -> Iterator[Cell]:
    """The grid, or its quick corner."""
    noises = ["symmetric_40"] if quick else [name for name in NOISES if name != "clean"]
    for noise in noises:
        for seed in range(1 if quick else 3):
            for method in METHODS:
                yield Cell(noise, method, seed, path)


def measured(cell: Cell) -> Found:
    """One method on one noise and seed."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        outcome = cleaned(cell, Path(folder)) if cell.method == "cleanlab" else trained(cell, Path(folder))
    seconds = time.monotonic() - begun
    splits = read_features(cell.path)
    wrong = with_noise(splits, cell.noise, cell.seed) != splits.train.labels.hard
    precision, recall, f1 = detection(outcome.called_wrong, wrong)
    return Found(
        noise=cell.noise,
        method=cell.method,
        seed=cell.seed,
        test_last=round(100 * outcome.accuracy, 3),
        precision=precision,
        recall=recall,
        f1=f1,
        seconds=round(seconds, 2),
        forward=outcome.forward,
    )


def detection(called: Tensor | None, wrong: Tensor) -> tuple[float | None, float | None, float | None]:
    """Precision, recall and F1 in percent of the rows called wrong (N,) among the wrong ones (N,)."""
    if called is None:
        return None, None, None
    hits = int((called & wrong).sum())
    precision, recall = hits / max(1, int(called.sum())), hits / max(1, int(wrong.sum()))
    f1 = 2 * precision * recall / (precision + recall) if hits else 0.0
    return round(100 * precision, 2), round(100 * recall, 2), round(100 * f1, 2)


def trained(cell: Cell, folder: Path) -> Outcome:
    """One run; PENCIL's suggestions say which rows it calls wrong."""
    config = cell_config(cell)
    directory = train(config, folder / "run")
    splits = read_features(cell.path)
    called = None
    if cell.method == "pencil":
        suggested = distributions(learned_labels(directory)[0]).argmax(dim=1)
        called = suggested != with_noise(splits, cell.noise, cell.seed)
    test = splits.test
    assert test is not None
    return Outcome(last_accuracy(directory.metrics), called, passes(config, len(splits.train), len(test)))


def cleaned(cell: Cell, folder: Path) -> Outcome:
    """K folds, the filter, and a training on the rows that pass it."""
    given = with_noise(read_features(cell.path), cell.noise, cell.seed)
    probs, forward = out_of_fold(cell, folder)
    issues = label_issues(given, probs)
    torch.save(issues, folder / "issues.pt")
    config = python_config(cell, "kept", issues=str(folder / "issues.pt"))
    directory = train(config, folder / "kept")
    splits = read_features(cell.path)
    assert splits.test is not None
    forward += passes(config, int((~issues).sum()), len(splits.test))
    return Outcome(last_accuracy(directory.metrics), issues, forward)


def out_of_fold(cell: Cell, folder: Path) -> tuple[Tensor, int]:
    """Probabilities (N, C) for every row by a network that has not seen it, and the examples passed forward."""
    examples, forward = read_features(cell.path).train, 0
    probs = torch.zeros(len(examples), examples.num_classes)
    for number in range(FOLDS):
        config = python_config(cell, "fold", number=number)
        directory = train(config, folder / str(number))
        rows = held_out(len(examples), cell.seed, number)
        probs[rows] = distributions(predict(directory, config.data, "test")[0])
        forward += passes(config, len(examples) - len(rows), 2 * len(rows))  # measured, then predicted
    return probs, forward


def distributions(chunks: Iterator[LabelChunk]) -> Tensor:
    """All rows' probabilities (N, C)."""
    parts = [chunk.distribution for chunk in chunks]
    return torch.cat([part.dense() if isinstance(part, TopRows) else part for part in parts])


def label_issues(given: Tensor, probs: Tensor) -> Tensor:
    """(N,) bool by cleanlab's default filter."""
    cleanlab = need("cleanlab.filter", extra="benchmark", purpose="find label issues by confident learning")
    issues = cleanlab.find_label_issues(labels=given.numpy(), pred_probs=probs.double().numpy(), n_jobs=1)
    return torch.from_numpy(issues)


def held_out(num_rows: int, seed: int, number: int) -> Tensor:
    """The rows of a fold, every row in one of them."""
    order = torch.randperm(num_rows, generator=torch.Generator().manual_seed(seed))
    return order[number::FOLDS].sort().values


def noisy(features: str, noise: str, seed: int) -> Splits:
    """The data with the training labels as every method is given them."""
    splits = read_features(features)
    labels = GivenLabels.of(with_noise(splits, noise, seed), splits.train.num_classes)
    return Splits(splits.train.with_labels(labels), splits.test)


def fold(features: str, noise: str, seed: int, number: int) -> Splits:
    """All folds but one to train on, that one as the test split."""
    train_rows = noisy(features, noise, seed).train
    out = held_out(len(train_rows), seed, number)
    rest = torch.ones(len(train_rows), dtype=torch.bool).index_fill(0, out, False).nonzero().flatten()
    return Splits(train_rows.subset(rest), train_rows.subset(out))


def kept(features: str, noise: str, seed: int, issues: str) -> Splits:
    """The rows that are no issues."""
    splits = noisy(features, noise, seed)
    rows = (~torch.load(issues, weights_only=True)).nonzero().flatten()
    return Splits(splits.train.subset(rows), splits.test)


def python_config(cell: Cell, function: str, **args: Any) -> RunConfig:
    """The preset's cross entropy on data that a function of this file makes."""
    table = cell_config(Cell(cell.noise, "cross_entropy", cell.seed, cell.path)).table()
    args |= {"features": cell.path, "noise": cell.noise, "seed": cell.seed}
    table["data"] = {"kind": "python", "path": f"peers_cleanlab:{function}", "args": args}
    return RunConfig.of(table)


def passes(config: RunConfig, train_rows: int, other_rows: int) -> int:
    """Examples passed forward: every epoch's, and those measured or predicted once."""
    return sum(phase.epochs for phase in config.phases) * train_rows + other_rows


def last_accuracy(metrics: Path) -> float:
    """Of the last epoch, on the test split."""
    return float(json.loads(metrics.read_text().splitlines()[-1])["test_accuracy"])


def table(found: list[Found]) -> str:
    """Markdown, one line per training."""
    fields = ("test_last", "precision", "recall", "f1", "seconds", "forward")
    heads = ("test accuracy", "precision", "recall", "F1", "seconds", "examples forward")
    lines = ["| noise | method | seed | " + " | ".join(heads) + " |", "|---" * (3 + len(heads)) + "|"]
    for each in found:
        cells = ["–" if getattr(each, field) is None else str(getattr(each, field)) for field in fields]
        label = f"| {each.noise.replace('_', ' ')} % | {each.method} | {each.seed} | "
        lines.append(label + " | ".join(cells) + " |")
    return "\n".join(lines)


def figures(found: list[Found]) -> dict[str, float]:
    """Of symmetric 40 %, seed 0."""
    fields = ("test_last", "f1", "seconds", "forward")
    chosen = [each for each in found if (each.noise, each.seed) == ("symmetric_40", 0)]
    pairs = ((f"{each.method}_{field}", getattr(each, field)) for each in chosen for field in fields)
    return {name: value for name, value in pairs if value is not None}


def write(found: list[Found], out: Path) -> None:
    """Every line as JSON, and the table."""
    out.parent.mkdir(parents=True, exist_ok=True)
    out.with_suffix(".jsonl").write_text("".join(json.dumps(asdict(each)) + "\n" for each in found))
    out.with_suffix(".md").write_text(table(found) + "\n")


if __name__ == "__main__":
    main()
