"""Confident learning (cleanlab) on problems of a grid: test accuracy, label errors found, and everything it costs.

    pip install "pencil-labels[benchmark]"
    python benchmarks/peers_cleanlab.py GRID.toml --noise symmetric_40 --seed 0 [--out FILE.jsonl]
    python benchmarks/peers_cleanlab.py --quick --json

cleanlab is given what its documentation asks for: probabilities of K = 5 networks for rows that they have not seen,
with its own default filter. All networks have the model, optimiser and epochs of the grid's cross entropy, and the rows
are those that the grid's other methods train on. The rows that it calls issues are left out, and a new network learns
the rest. AUROC, average precision and precision at a budget are of cleanlab's own label quality score. The lines have
the fields of ``pencil bench``, so ``pencil bench table`` reads them. Cost is examples sent forward in all trainings and
predictions. ``--quick``: CUB-200, symmetric 40 %, seed 0.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from common import data_folder, finish
from torch import Tensor

from pencil.algorithm import TopRows
from pencil.bench import Grid
from pencil.bench.measure import detection
from pencil.bench.ranking import ranked
from pencil.config import RunConfig
from pencil.data import Examples, Splits
from pencil.engine import read_json_lines
from pencil.imports import need
from pencil.results import Judged
from pencil.run import RunDirectory, predict, prepare_examples, train

FOLDS = 5  # K
CUB = Path(__file__).parent / "grids" / "cub_features.toml"
Line = dict[str, Any]


def main() -> None:
    """Measure every problem asked for, a line each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("grid", type=Path, nargs="?", default=CUB)
    parser.add_argument("--noise", action="append", help="of the grid; may be repeated; all by default")
    parser.add_argument("--seed", type=int, action="append", help="may be repeated; 0 by default")
    parser.add_argument("--out", type=Path, help="add a JSON line per problem to this file")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    data_folder()
    torch.set_num_threads(1)
    noises = ["symmetric_40"] if arguments.quick else arguments.noise
    lines = []
    for problem in problems(arguments.grid, noises, arguments.seed or [0]):
        lines.append(measured(*problem))
        print(json.dumps(lines[-1]), file=sys.stderr)
        if arguments.out:
            with arguments.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(lines[-1]) + "\n")
    finish(
        {f"{line['noise']}_{name}": line[name] for line in lines for name in ("test_last", "f1", "auroc")},
        as_json=arguments.json,
    )


def problems(grid: Path, noises: list[str] | None, seeds: list[int]) -> Iterator[tuple[Path, str, str, int]]:
    """Grid, data, noise and seed."""
    only = ["method=cross_entropy", *([f"noise={','.join(noises)}"] if noises else [])]
    for cell in Grid.read(grid).cells(only):
        if cell.seed in seeds and cell.variant == "default":
            yield grid, cell.data, cell.noise, cell.seed


def cell_config(grid: Path, data: str, noise: str, seed: int) -> RunConfig:
    """The settings of the grid's cross entropy."""
    cells = Grid.read(grid).cells(["method=cross_entropy", f"noise={noise}", f"data={data}"])
    return next(cell.config for cell in cells if cell.seed == seed)


def prepared(grid: Path, data: str, noise: str, seed: int) -> Splits:
    """The rows that the grid's methods train on, with their given labels, and the test split."""
    config = cell_config(grid, data, noise, seed)
    found = prepare_examples(config.data, config.seed)
    return Splits(found.train, found.test)


def measured(grid: Path, data: str, noise: str, seed: int) -> Line:
    """K folds, the filter, and a training on the rows that pass it."""
    begun = time.monotonic()
    examples = prepared(grid, data, noise, seed).train
    assert examples.reference is not None
    wrong = examples.labels.hard != examples.reference
    where = {"grid": str(grid), "data": data, "noise": noise, "seed": seed}
    with tempfile.TemporaryDirectory() as folder:
        probs, forward = out_of_fold(where, examples, Path(folder))
        issues = label_issues(examples.labels.hard, probs)
        torch.save(issues, Path(folder) / "issues.pt")
        config = python_config(where, "kept", issues=str(Path(folder) / "issues.pt"))
        metrics = read_json_lines(train(config, Path(folder) / "kept").metrics)
    return {
        **{name: value for name, value in where.items() if name != "grid"},
        "method": "cleanlab",
        "variant": "default",
        "test_last": metrics[-1]["test_accuracy"],
        **detection(wrong, issues),
        **ranked(quality_doubts(examples.labels.hard, probs), wrong),
        "seconds": round(time.monotonic() - begun, 2),
        "forward_passes": forward + sum(line["forward_passes"] for line in metrics),
    }


def out_of_fold(where: Line, examples: Examples, folder: Path) -> tuple[Tensor, int]:
    """Probabilities (N, C) for every row by a network that has not seen it, and the examples sent forward."""
    probs, forward = torch.zeros(len(examples), examples.num_classes), len(examples)
    for number in range(FOLDS):
        config = python_config(where, "fold", number=number)
        directory: RunDirectory = train(config, folder / str(number))
        rows = held_out(len(examples), where["seed"], number)
        probs[rows] = distributions(predict(directory, config.data, "test", trust_code=True)[0])
        forward += sum(line["forward_passes"] for line in read_json_lines(directory.metrics))
    return probs, forward


def distributions(chunks: Iterator[Judged]) -> Tensor:
    """All rows' probabilities (N, C)."""
    parts = [chunk.distribution for chunk in chunks]
    return torch.cat([part.dense() if isinstance(part, TopRows) else part for part in parts])


def label_issues(given: Tensor, probs: Tensor) -> Tensor:
    """(N,) bool by cleanlab's default filter."""
    cleanlab = need("cleanlab.filter", extra="benchmark", purpose="find label issues by confident learning")
    issues = cleanlab.find_label_issues(labels=given.numpy(), pred_probs=probs.double().numpy(), n_jobs=1)
    return torch.from_numpy(issues)


def quality_doubts(given: Tensor, probs: Tensor) -> Tensor:
    """(N,) 1 - cleanlab's own label quality score, with its default settings."""
    cleanlab = need("cleanlab.rank", extra="benchmark", purpose="score labels by confident learning")
    scores = cleanlab.get_label_quality_scores(labels=given.numpy(), pred_probs=probs.double().numpy())
    return 1 - torch.from_numpy(scores)


def held_out(num_rows: int, seed: int, number: int) -> Tensor:
    """The rows of a fold, every row in one of them."""
    order = torch.randperm(num_rows, generator=torch.Generator().manual_seed(seed))
    return order[number::FOLDS].sort().values


def fold(grid: str, data: str, noise: str, seed: int, number: int) -> Splits:
    """All folds but one to train on, that one as the test split."""
    rows = prepared(Path(grid), data, noise, seed).train
    out = held_out(len(rows), seed, number)
    rest = torch.ones(len(rows), dtype=torch.bool).index_fill(0, out, False).nonzero().flatten()
    return Splits(rows.subset(rest), rows.subset(out))


def kept(grid: str, data: str, noise: str, seed: int, issues: str) -> Splits:
    """The rows that are no issues."""
    splits = prepared(Path(grid), data, noise, seed)
    rows = (~torch.load(issues, weights_only=True)).nonzero().flatten()
    return Splits(splits.train.subset(rows), splits.test)


def python_config(where: Line, function: str, **args: Any) -> RunConfig:
    """The grid's cross entropy on data that a function of this file makes; measured at the end only."""
    table = cell_config(Path(where["grid"]), where["data"], where["noise"], where["seed"]).table()
    table["train"]["evaluate_every"] = 1000
    table["data"] = {"kind": "python", "path": f"peers_cleanlab:{function}", "args": {**where, **args}}
    return RunConfig.of(table)


if __name__ == "__main__":
    main()
