"""Which compatibility loss corrects labels: printed, reference and κ < 1 on the same work, every flip counted.

    python benchmarks/compatibility.py [--quick] [--json] [--out benchmarks/results/compatibility.jsonl]

The preset ``features`` with symmetric 40 % noise at c = 10 (ten classes of the CIFAR-100 features), 100 (10,000 rows
of all classes) and 200 (CUB-200 features); only form and pull κ change. κ = c α with the paper's α = 0.1 is 1, 10, 20.
A flip is right where the new label is the true one and wrong where it is not; ``lost`` are wrong flips of labels that
were right. One thread. ``--quick`` does c = 200, seed 0. With ``--out`` finished lines are kept: killed and started
again, it continues.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from common import data_folder, finish

from pencil.algorithm import Pencil, flip_certificates
from pencil.config import RunConfig
from pencil.data import Splits, read_features
from pencil.presets import preset
from pencil.run import RunDirectory, judged_labels, train
from pencil.run.sources import prepare_examples

ALPHA, NOISE, RATE = 0.1, "symmetric", 0.4
WORKS = ((10, None), (100, 10_000), (200, None))
"""Classes, and how many rows to draw by seed; None for all."""
FILES = {
    10: "cifar/cifar100_lite0_128_pca384.npz",
    100: "cifar/cifar100_lite0_128_pca384.npz",
    200: "cub/cub200_2011_lite0_224_feat.npz",
}


@dataclass(frozen=True)
class Cell:
    """One training."""

    classes: int
    limit: int | None
    form: str
    pull: float
    seed: int


@dataclass(frozen=True)
class Result:
    """What it ended with; shares and accuracy in percent of the rows."""

    classes: int
    limit: int | None
    form: str
    pull: float
    seed: int
    rows: int
    labels_changed: int
    right_flips: int
    wrong_flips: int
    lost: int
    labels_before: float
    labels_after: float
    test_last: float
    certified: bool

    @property
    def cell(self) -> Cell:
        """Which training this was."""
        return Cell(self.classes, self.limit, self.form, self.pull, self.seed)


def main() -> None:
    """Run all cells one after another, and print or write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="a file of JSON lines; those it has are not run again")
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    data = data_folder()
    works = [(seed, *work) for seed in range(arguments.seeds) for work in WORKS]
    cells = list(all_cells([(0, *WORKS[-1])] if arguments.quick else works))
    results = run_cells(cells, data, arguments.out)
    if not arguments.json:
        print(table(results))
    finish(figures(results), as_json=arguments.json)


def all_cells(works: list[tuple[int, int, int | None]]) -> Iterator[Cell]:
    """Every form and pull for each seed, class count and limit; whoever stops early has whole seeds."""
    for seed, classes, limit in works:
        pulls = {"printed": (0.3, 1.0, classes * ALPHA), "reference": (1.0, classes * ALPHA)}
        for form, values in pulls.items():
            for pull in dict.fromkeys(values):
                yield Cell(classes, limit, form, pull, seed)


def run_cells(cells: list[Cell], data: Path, out: Path | None) -> list[Result]:
    """Results in the order of the cells; ``out`` grows by a line with every training."""
    done = {result.cell: result for result in read(out)} if out and out.exists() else {}
    for number, cell in enumerate(cells, start=1):
        if cell not in done:
            done[cell] = run_cell(cell, data)
            if out:
                with out.open("a") as file:
                    file.write(json.dumps(asdict(done[cell])) + "\n")
        print(f"{number}/{len(cells)}  {cell}  {done[cell].labels_changed} changed", file=sys.stderr)
    return [done[cell] for cell in cells]


def read(path: Path) -> list[Result]:
    """The lines of an earlier run."""
    return [Result(**json.loads(line)) for line in path.read_text().splitlines()]


def run_cell(cell: Cell, data: Path) -> Result:
    """Train in a throwaway run directory, and count flips."""
    config = cell_config(cell, data)
    assert isinstance(config.method, Pencil), "the preset's method"
    with tempfile.TemporaryDirectory() as folder:
        run = train(config, Path(folder) / "run")
        given, suggested, truth = labels(run)
        summary = run.summary
    changed, was_right, right = suggested != given, given == truth, suggested == truth
    return Result(
        **asdict(cell),
        rows=len(truth),
        labels_changed=int(changed.sum()),
        right_flips=int((changed & right).sum()),
        wrong_flips=int((changed & ~right).sum()),
        lost=int((changed & was_right).sum()),
        labels_before=percent(was_right),
        labels_after=percent(right),
        test_last=round(100 * summary["last"]["test_accuracy"], 3),
        certified=bool(flip_certificates(config.method, config.phases)),
    )


def cell_config(cell: Cell, data: Path) -> RunConfig:
    """The preset with the cell's form, pull and seed; evaluation at the end only."""
    path = str(data / FILES[cell.classes])
    settings = preset("features", path).table()
    settings["seed"] = cell.seed
    if cell.classes == 10:
        settings["data"] = {"kind": "python", "path": "compatibility:ten_classes", "args": {"features": path}}
    settings["data"]["noise"] = {"kind": NOISE, "rate": RATE}
    settings["data"]["limit"] = cell.limit
    settings["train"]["evaluate_every"] = 1000
    settings["method"] |= {"form": cell.form, "pull": cell.pull}
    return RunConfig.of(settings)


def ten_classes(features: str) -> Splits:
    """Every tenth class of the CIFAR-100 features, numbered anew."""
    splits = read_features(features)
    assert splits.test is not None
    parts = []
    for part in (splits.train, splits.test):
        rows = (part.labels.hard % 10 == 0).nonzero().flatten()
        some = part.subset(rows)
        names = part.class_names[::10]
        given = type(part.labels).of(some.labels.hard // 10, len(names))
        parts.append(type(part)(some.inputs, given, names, some.ids))
    return Splits(*parts)


def labels(run: RunDirectory) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Given, suggested and true labels (N,) of the training rows."""
    config = run.config
    examples = prepare_examples(config.data, config.seed).train
    chunks, _ = judged_labels(run)
    suggested = torch.cat([chunk.distribution.max(dim=1).indices for chunk in chunks])
    assert examples.reference is not None
    return examples.labels.hard, suggested, examples.reference


def percent(mask: torch.Tensor) -> float:
    """The share of true values."""
    return round(100 * float(mask.double().mean()), 3)


def grouped(results: list[Result]) -> list[list[Result]]:
    """The seeds of each setting."""
    groups: dict[tuple[int, int, str, float], list[Result]] = {}
    for each in results:
        groups.setdefault((each.classes, each.rows, each.form, each.pull), []).append(each)
    return [groups[key] for key in sorted(groups)]


def mean(results: list[Result], field: str) -> float:
    """Of one field over the seeds."""
    return statistics.mean(float(getattr(each, field)) for each in results)


def table(results: list[Result]) -> str:
    """Markdown: means over the seeds."""
    lines = [
        "| c | rows | form | κ | seeds | labels changed | right flips | wrong flips | of these were right "
        "| right labels | test accuracy | certificate |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for group in grouped(results):
        first = group[0]
        counts = [
            f"{mean(group, name):,.0f}" for name in ("labels_changed", "right_flips", "wrong_flips", "lost")
        ]
        lines.append(
            f"| {first.classes} | {first.rows:,} | {first.form} | {first.pull:g} | {len(group)} | "
            f"{' | '.join(counts)} | {mean(group, 'labels_before'):.1f} → {mean(group, 'labels_after'):.1f} % | "
            f"{mean(group, 'test_last'):.1f} % | {'no label can flip' if first.certified else '–'} |"
        )
    return "\n".join(lines)


def figures(results: list[Result]) -> dict[str, Any]:
    """Means over the seeds, by setting."""
    found: dict[str, Any] = {}
    for group in grouped(results):
        first = group[0]
        name = f"c{first.classes}_n{first.rows}_{first.form}_{first.pull:g}"
        for field in ("labels_changed", "right_flips", "wrong_flips", "labels_after", "test_last"):
            found[f"{name}_{field}"] = round(mean(group, field), 2)
    return found


if __name__ == "__main__":
    main()
