"""CUB-200 features, several noises and seeds: cross entropy, PENCIL with one setting for all, and the oracle.

    python benchmarks/cub_features.py [--quick] [--json] [--out benchmarks/results/cub_features]

The preset ``features`` as it is, for every noise rate; cross entropy shares everything but the method. The oracle is
cross entropy on exactly the rows whose given label is right. Accuracy is that of the last epoch on the official test
split; no setting and no epoch is chosen on it. ``--quick`` does symmetric 40 %, seed 0, without the oracle.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from common import data_folder, finish

from pencil.config import RunConfig
from pencil.data import Splits, read_features
from pencil.presets import preset
from pencil.run import noisy_labels, train
from pencil.run.directory import RunDirectory

NOISES = {
    "clean": None,
    "symmetric_20": {"kind": "symmetric", "rate": 0.2},
    "symmetric_40": {"kind": "symmetric", "rate": 0.4},
    "symmetric_60": {"kind": "symmetric", "rate": 0.6},
    "circular_30": {"kind": "circular", "rate": 0.3},
}
METHODS = ("cross_entropy", "pencil", "oracle")


@dataclass(frozen=True)
class Cell:
    """One training."""

    noise: str
    method: str
    seed: int
    path: str


@dataclass(frozen=True)
class Result:
    """What a training ended with, in percent."""

    noise: str
    method: str
    seed: int
    test_last: float
    labels_before: float
    labels_after: float
    seconds: float


def main() -> None:
    """Run all cells, two at a time with one thread each, and print or write the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--out", type=Path, help="write OUT.jsonl and OUT.md")
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    cells = list(
        all_cells(str(data_folder() / "cub" / "cub200_2011_lite0_224_feat.npz"), quick=arguments.quick)
    )
    results = run_cells(cells)
    if arguments.out:
        write(results, arguments.out)
    if not arguments.json:
        print(table(results))
    finish(figures(results), as_json=arguments.json)


def all_cells(path: str, *, quick: bool) -> Iterator[Cell]:
    """The grid, or its quick corner."""
    noises, seeds, methods = (
        (["symmetric_40"], [0], METHODS[:2]) if quick else (list(NOISES), range(5), METHODS)
    )
    for noise in noises:
        for seed in seeds:
            for method in methods:
                yield Cell(noise, method, seed, path)


def run_cells(cells: list[Cell]) -> list[Result]:
    """Results in the order of the cells, with progress and time left."""
    results, begun = [], time.monotonic()
    with multiprocessing.get_context("spawn").Pool(min(2, os.cpu_count() or 1)) as pool:
        for done, result in enumerate(pool.imap(run_cell, cells), start=1):
            results.append(result)
            left = (time.monotonic() - begun) / done * (len(cells) - done)
            label = f"{result.noise} {result.method} seed {result.seed}"
            print(
                f"{done}/{len(cells)}  {label}  {result.test_last:.1f} %  {left:.0f} s left", file=sys.stderr
            )
    return results


def run_cell(cell: Cell) -> Result:
    """Train one cell in a throwaway run directory."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        config = cell_config(cell)
        run: RunDirectory = train(config, Path(folder) / "run")
        lines = [json.loads(line) for line in run.metrics.read_text().splitlines()]
    before = labels_right_before(cell) if cell.method != "oracle" else 100.0
    last = lines[-1]
    return Result(
        noise=cell.noise,
        method=cell.method,
        seed=cell.seed,
        test_last=round(100 * last["test_accuracy"], 3),
        labels_before=round(before, 3),
        labels_after=round(100 * last.get("labels_correct", 1.0), 3)
        if cell.method == "pencil"
        else round(before, 3),
        seconds=round(sum(line["seconds"] for line in lines), 2),
    )


def cell_config(cell: Cell) -> RunConfig:
    """The preset with the cell's noise, seed and method; evaluation at the end only."""
    table = preset("features", cell.path).table()
    table["seed"] = cell.seed
    table["data"]["noise"] = NOISES[cell.noise] or {"kind": "symmetric", "rate": 0.0}
    table["train"]["evaluate_every"] = 1000
    if cell.method != "pencil":
        table["method"] = {"name": "cross_entropy"}
    if cell.method == "oracle":
        args = {"features": cell.path, "noise": cell.noise, "seed": cell.seed}
        table["data"] = {"kind": "python", "path": "cub_features:right_rows_only", "args": args}
    return RunConfig.of(table)


def right_rows_only(features: str, noise: str, seed: int) -> Splits:
    """The oracle's data: the rows whose noisy label is the true one."""
    splits = read_features(features)
    noisy = with_noise(splits, noise, seed)
    right = (noisy == splits.train.labels.hard).nonzero().flatten()
    return Splits(splits.train.subset(right), splits.test)


def with_noise(splits: Splits, noise: str, seed: int) -> torch.Tensor:
    """The training labels as a run with this noise and seed sees them."""
    table = preset("features", "").table()
    table["data"]["noise"] = NOISES[noise] or {"kind": "symmetric", "rate": 0.0}
    section = RunConfig.of(table).data.noise
    assert section is not None
    return noisy_labels(splits.train, section, seed).hard


def labels_right_before(cell: Cell) -> float:
    """The share of given labels that are right, in percent."""
    splits = read_features(cell.path)
    right = with_noise(splits, cell.noise, cell.seed) == splits.train.labels.hard
    return 100 * float(right.float().mean())


def values(results: list[Result], noise: str, method: str, field: str) -> list[float]:
    """One field over the seeds."""
    return [getattr(each, field) for each in results if each.noise == noise and each.method == method]


def spread(numbers: list[float]) -> str:
    """Mean ± standard deviation."""
    if not numbers:
        return "–"
    return f"{statistics.mean(numbers):.1f} ± {statistics.stdev(numbers) if len(numbers) > 1 else 0:.1f}"


def table(results: list[Result]) -> str:
    """Markdown."""
    lines = [
        "| noise | cross entropy | PENCIL | oracle (wrong labels deleted) | right labels, given | PENCIL's |",
        "|---|---|---|---|---|---|",
    ]
    for noise in dict.fromkeys(each.noise for each in results):
        accuracies = [spread(values(results, noise, method, "test_last")) for method in METHODS]
        labels = [
            spread(values(results, noise, "pencil", field)) for field in ("labels_before", "labels_after")
        ]
        lines.append(" | ".join([f"| {noise.replace('_', ' ')} %", *accuracies, *labels]) + " |")
    return "\n".join(lines).replace("clean %", "none")


def figures(results: list[Result]) -> dict[str, Any]:
    """The named figures of symmetric 40 %, and means and deviations of everything."""
    named = {
        "cross_entropy_last": ("cross_entropy", "test_last"),
        "pencil_last": ("pencil", "test_last"),
        "labels_before": ("pencil", "labels_before"),
        "labels_after": ("pencil", "labels_after"),
    }
    found = {
        name: round(statistics.mean(values(results, "symmetric_40", *where)), 2)
        for name, where in named.items()
    }
    for noise in dict.fromkeys(each.noise for each in results if len(results) > 2):
        for method in METHODS:
            numbers = values(results, noise, method, "test_last")
            found[f"{noise}_{method}_last"] = round(statistics.mean(numbers), 2)
            found[f"{noise}_{method}_std"] = round(statistics.stdev(numbers), 2)
    return found


def write(results: list[Result], out: Path) -> None:
    """Every training as a JSON line, and the table."""
    out.parent.mkdir(parents=True, exist_ok=True)
    out.with_suffix(".jsonl").write_text("".join(json.dumps(asdict(each)) + "\n" for each in results))
    out.with_suffix(".md").write_text(table(results) + "\n")


if __name__ == "__main__":
    main()
