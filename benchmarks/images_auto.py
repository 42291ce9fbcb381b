"""Runs of plan = "auto" on CIFAR-10 images from scratch, as they were recorded, epoch by epoch.

    pencil train CIFAR10 --preset cifar10 --noise symmetric:0.5 --seed 0 --out RUN
    python benchmarks/images_auto.py --record RUN [RUN ...]     # adds finished runs
    python benchmarks/images_auto.py [--json]                   # the figures, in percent

Until the first correction, a run is plain training by cross entropy with a falling learning rate. ``cross_entropy`` is
the test accuracy of its best epoch, the one that agrees most with held-out given labels; the test set decides nothing.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from common import finish

from pencil.engine import read_json_lines, read_metrics
from pencil.run import RunDirectory

RECORDED = Path(__file__).parent / "results" / "images_auto.jsonl"
KEPT = ("epoch", "phase", "validation_accuracy", "test_accuracy", "labels_correct", "labels_changed")
Run = Mapping[str, Any]


def main() -> None:
    """Record runs if asked to, then print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", type=Path, nargs="+", default=[], metavar="RUN")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.record:
        runs = {name_of(run): run for run in (*recorded(), *map(line_of, arguments.record))}
        text = "".join(json.dumps(run) + "\n" for run in runs.values())
        RECORDED.write_text(text, encoding="utf-8")
    if not arguments.json:
        print(table(recorded()))
    finish(figures(recorded()), as_json=arguments.json)


def recorded() -> list[dict[str, Any]]:
    """Every recorded run."""
    return read_json_lines(RECORDED) if RECORDED.is_file() else []


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
        "seconds": directory.summary["seconds"],
        "epochs": [
            {name: each[name] for name in KEPT if name in each} for each in read_metrics(directory.metrics)
        ],
        "environment": environment,
    }


def name_of(run: Run) -> str:
    """The noise, how many rows, and the seed."""
    noise = run["noise"]
    rate = f"_{100 * noise['rate']:.0f}" if "rate" in noise else f"_{noise.get('key', '')}"
    return f"{noise['kind']}{rate}_{run['examples']}_{run['seed']}"


def measures(run: Run) -> dict[str, float]:
    """The accuracies and label shares of a run, in percent."""
    epochs = run["epochs"]
    plain = [each for each in epochs if each["phase"] == "backbone"]
    best = max(plain, key=lambda each: float(each["validation_accuracy"]))
    shares = {
        "cross_entropy": best["test_accuracy"],
        "auto": epochs[-1]["test_accuracy"],
        "labels_before": epochs[0]["labels_correct"],
        "labels_after": epochs[-1]["labels_correct"],
    }
    return {name: round(100 * share, 1) for name, share in shares.items()}


def figures(runs: Sequence[Run]) -> dict[str, float]:
    """The measures of every run, by its name."""
    return {f"{name_of(run)}_{name}": value for run in runs for name, value in measures(run).items()}


def at_symmetric_50(runs: Sequence[Run]) -> dict[str, float]:
    """The measures at symmetric 50 % on the most rows, mean over seeds; nothing if it was not run."""
    chosen = [run for run in runs if run["noise"]["kind"] == "symmetric" and run["noise"]["rate"] == 0.5]
    most = max((run["examples"] for run in chosen), default=0)
    found = [measures(run) for run in chosen if run["examples"] == most]
    names = {
        "images_auto_sym50": "auto",
        "images_cross_entropy_sym50_best": "cross_entropy",
        "images_right_labels_sym50": "labels_after",
    }
    return {
        name: round(statistics.mean(each[key] for each in found), 1) for name, key in names.items() if found
    }


def table(runs: Sequence[Run]) -> str:
    """Markdown: a line for each run."""
    lines = [
        "| noise | training images | seed | cross entropy, best epoch | `auto` | right labels | rounds |",
        "|---|---|---|---|---|---|---|",
    ]
    for run in runs:
        told, kind = measures(run), name_of(run).rsplit("_", 2)[0].replace("_", " ")
        phases = [each["phase"] for each in run["epochs"]]
        rounds = sum(
            now == "correction" != before for before, now in zip(["backbone", *phases], phases, strict=False)
        )
        lines.append(
            f"| {kind} % | {run['examples']:,} | {run['seed']} | {told['cross_entropy']} | {told['auto']} | "
            f"{told['labels_before']} → {told['labels_after']} | {rounds} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
