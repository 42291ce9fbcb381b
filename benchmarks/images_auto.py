"""CIFAR-10 images from scratch with ``plan = "auto"``, and other methods beside it, as recorded epoch by epoch.

    pencil train CIFAR10 --preset cifar10 --noise symmetric:0.5 --seed 0 --out RUN
    pencil train CIFAR10 --preset cifar10 --noise symmetric:0.5 --method early_learning --set plan=fixed --out RUN
    python benchmarks/images_auto.py --record RUN [RUN ...]     # adds finished runs to docs/images.md and its figures
    python benchmarks/images_auto.py [--json]                   # the figures, in percent

Until the first correction, a run of ``auto`` is plain training by cross entropy with a falling learning rate.
``cross_entropy`` is the test accuracy of its best epoch, the one that agrees most with held-out given labels; the test
set decides nothing. Other methods have as many epochs and the same learning rates.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from common import between_marks, finish, write_lines
from images_auto_figures import draw_epochs, draw_memorised
from images_auto_tables import (
    Run,
    has_memorised,
    is_usual,
    measures,
    name_of,
    noise_of,
    order_of,
    plain_epochs,
    tables,
)

from pencil.engine import read_json_lines, read_metrics
from pencil.results import RELABEL
from pencil.run import LabelTable, RunDirectory, prepare_examples
from pencil.run.renewal import FOLDER

RECORDED = Path(__file__).parent / "results" / "images_auto.jsonl"
PAGE = Path(__file__).parents[1] / "docs" / "images.md"
FIGURE = PAGE.parent / "figures" / "images_auto.png"
MEMORISED = FIGURE.with_name("images_memorised.png")
KEPT = ("epoch", "phase", "validation_accuracy", "test_accuracy", "labels_correct", "labels_changed")


def main() -> None:
    """Record runs if asked to, then print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", type=Path, nargs="+", default=[], metavar="RUN")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.record:
        record(arguments.record)
    runs = recorded()
    if not arguments.json:
        print(tables(runs))
    finish(figures(runs), as_json=arguments.json)


def record(folders: Sequence[Path]) -> None:
    """Add runs, in place of those with the same name, and write the page and its figures."""
    named = {name_of(run): run for run in (*recorded(), *map(line_of, folders))}
    runs = sorted(named.values(), key=order_of)
    write_lines(RECORDED, runs)
    PAGE.write_text(between_marks(PAGE.read_text(encoding="utf-8"), tables(runs)), encoding="utf-8")
    draw(runs)


def recorded() -> list[dict[str, Any]]:
    """Every recorded run."""
    return read_json_lines(RECORDED)


def line_of(path: Path) -> dict[str, Any]:
    """A finished run: its settings, what it decided, and its epochs."""
    directory = RunDirectory.open(path)
    directory.require_finished()
    config = directory.config
    # Without the command, which has paths of one machine.
    environment = {name: value for name, value in directory.environment.items() if name != "command"}
    noise = config.data.noise
    assert noise is not None, "the runs of this benchmark have noise"
    return {
        "noise": noise.model_dump(mode="json", exclude_none=True) | {"path": None},
        "examples": directory.summary["examples"],
        "seed": config.seed,
        "method": config.method.name,
        "plan": config.plan,
        "choices": directory.summary.get("choices", []),
        "renewed": sorted(int(each.name.rpartition("-")[2]) for each in path.glob(FOLDER.format("*"))),
        "seconds": directory.summary["seconds"],
        "handed_out": handed_out(directory),
        "plain": _kept(
            each
            for each in read_json_lines(directory.metrics)
            if each.get("phase") == "backbone" and "restored" not in each
        ),
        "epochs": _kept(read_metrics(directory.metrics)),
        "environment": environment,
    }


def _kept(epochs: Iterable[Run]) -> list[dict[str, Any]]:
    return [{name: each[name] for name in KEPT if name in each} for each in epochs]


def handed_out(directory: RunDirectory) -> dict[str, Any]:
    """What ``pencil labels`` writes, against the truth: right suggestions, and right labels after every ``relabel``."""
    table, config = LabelTable.open(directory), directory.config
    truth = prepare_examples(config.data, config.seed).train.reference
    assert truth is not None, "noise was added, so the truth is known"
    suggested = relabelled = 0
    for rows in table.chunks():
        true = truth[rows.first : rows.first + len(rows)]
        suggested += int((rows.suggested == true).sum())
        relabelled += int((torch.where(rows.verdict == RELABEL, rows.suggested, rows.given) == true).sum())
    estimates = table.estimates
    return {
        "suggested_right": suggested / len(table),
        "relabelled_right": relabelled / len(table),
        "wrong_estimated": estimates.rate.value,
        "source": estimates.source,
        "alarms": [alarm.name for alarm in estimates.alarms],
    }


def figures(runs: Sequence[Run]) -> dict[str, float]:
    """The measures of every run, by its name."""
    return {f"{name_of(run)}_{name}": value for run in runs for name, value in measures(run).items()}


def draw(runs: Sequence[Run]) -> None:
    """A line for each noise and number of images, of its last seed; and the run that memorised, if there is one."""
    usual = {f"{noise_of(run)}, {run['examples']:,} images": run["epochs"] for run in runs if is_usual(run)}
    draw_epochs(usual, FIGURE)
    for run in filter(has_memorised, runs):
        draw_memorised(plain_epochs(run), run["epochs"], MEMORISED)


if __name__ == "__main__":
    main()
