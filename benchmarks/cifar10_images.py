"""CIFAR-10 images from scratch: four methods under two noises, and the paper's Figures 2 and 3 at small scale.

    python benchmarks/cifar10_images.py --run bench/cifar10_images    # trains (two hours), records, draws
    python benchmarks/cifar10_images.py                               # draws and shows what is recorded

The runs are those of grids/cifar10_images.toml, two processes with one thread each; killed and started again, it goes
on. The best epoch is chosen on the held-out 10 % of the training rows, whose labels are noisy too; the test set is only
read.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from common import cifar10_folder, finish

from pencil.bench.checks import DEFAULT
from pencil.bench.results import RESULTS, read_results
from pencil.engine import read_json_lines
from pencil.imports import need

HERE = Path(__file__).parent
GRID = HERE / "grids" / "cifar10_images.toml"
RECORDED = HERE / "results" / "cifar10_images.jsonl"
FIGURES = HERE.parent / "docs" / "figures"
COMPARED = {"symmetric_50": "symmetric 50 %", "asymmetric_40": "asymmetric 40 %"}
COUNTED = {"symmetric_70": "Figure 2: symmetric 70 %", "asymmetric_30": "Figure 3: asymmetric 30 %"}
PARTS = (  # of the grid, in this order
    (f"noise={','.join(COMPARED)}", "variant=default"),
    ("method=pencil", "variant=default"),
    ("noise=symmetric_50", "variant=soft"),
)
STYLES = {
    "cross_entropy": "C7:",
    "joint_optimization": "C2-.",
    "early_learning": "C1--",
    "pencil": "C0-",
}
CORRECTING = ("pencil", "joint_optimization", "early_learning")
ABOUT = (
    *("noise", "method", "variant", "seed", "config_hash", "examples", "labels_before", "labels_after"),
    *("seconds", "version", "environment"),
)
KEPT = ("epoch", "phase", "validation_accuracy", "test_accuracy", "labels_correct", "labels_changed")

Run = Mapping[str, Any]


def main() -> None:
    """Train where asked to, then show and draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", type=Path, metavar="FOLDER", help="carry out the grid there, and record it")
    parser.add_argument("--figures", type=Path, default=FIGURES, help="where to draw (a folder)")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.run:
        carry_out(arguments.run)
        lines = [json.dumps(run) for run in collected(arguments.run)]
        RECORDED.write_text("\n".join(lines) + "\n", encoding="utf-8")
    runs = read_json_lines(RECORDED)
    draw_accuracy(runs, arguments.figures / "cifar10_images.png")
    draw_labels(runs, arguments.figures / "cifar10_correct_labels.png")
    if arguments.json:
        finish(figures(runs), as_json=True)
    else:
        print(table(runs))


def carry_out(folder: Path) -> None:
    """Every part of the grid; what has a result already is left alone."""
    data = cifar10_folder(folder / "data")
    environment = {"CIFAR10": str(data.resolve()), **os.environ, "OMP_NUM_THREADS": "1"}
    for part in PARTS:
        only = [word for each in part for word in ("--only", each)]
        words = ["bench", str(GRID), "--out", str(folder), "--jobs", "2", *only]
        ended = subprocess.run([sys.executable, "-m", "pencil", *words], env=environment, stdout=sys.stderr)
        if ended.returncode:
            sys.exit("the grid was stopped or failed; start again to go on")


def collected(folder: Path) -> list[dict[str, Any]]:
    """A line per run: what it is, and its measures epoch by epoch."""
    found = []
    for line in read_results(folder / RESULTS):
        epochs = read_json_lines(folder / "runs" / line["config_hash"] / "metrics.jsonl")
        about = {name: line[name] for name in ABOUT}
        kept = [{name: epoch[name] for name in KEPT} for epoch in epochs]
        found.append({**about, "epochs": kept})
    return found


def place_of(run: Run) -> str:
    """Noise, method and, where it is not the default one, variant."""
    variant = "" if run["variant"] == DEFAULT else f"_{run['variant']}"
    return f"{run['noise']}_{run['method']}{variant}"


def figures(runs: Sequence[Run]) -> dict[str, float]:
    """Of every run the best epoch's test accuracy, the last one's, and correct labels before and after, in percent."""
    told: dict[str, float] = {}
    for run in runs:
        epochs = run["epochs"]
        best = max(epochs, key=lambda epoch: epoch["validation_accuracy"])
        shares = {
            "best": best["test_accuracy"],
            "last": epochs[-1]["test_accuracy"],
            "labels_before": run["labels_before"],
            "labels_after": run["labels_after"],
        }
        place = place_of(run)
        told |= {f"{place}_{name}": round(100 * share, 1) for name, share in shares.items()}
    return told


def table(runs: Sequence[Run]) -> str:
    """The figures in Markdown, a line per run."""
    told = figures(runs)
    lines = [
        "| noise | method | best (by noisy validation) | last | right labels, given → at the end |",
        "|---|---|---|---|---|",
    ]
    for run in runs:
        place = place_of(run)
        best, last, before, after = (
            f"{told[f'{place}_{name}']:.1f}" for name in ("best", "last", "labels_before", "labels_after")
        )
        noise, method = run["noise"].replace("_", " "), run["method"].replace("_", " ")
        if run["variant"] != DEFAULT:
            method += f", {run['variant']}"
        labels = f"{before} → {after} %" if run["method"] in CORRECTING else "–"
        lines.append(f"| {noise} % | {method} | {best} | {last} | {labels} |")
    return "\n".join(lines)


def draw_accuracy(runs: Sequence[Run], path: Path) -> None:
    """Test accuracy by epoch, a panel per noise, a line per method."""
    pyplot = need("matplotlib.pyplot", extra="plots", purpose="draw figures")
    figure, panels = pyplot.subplots(1, 2, figsize=(10, 4), constrained_layout=True, sharey=True)
    for axes, (noise, title) in zip(panels, COMPARED.items(), strict=True):
        shown = [run for run in runs if run["noise"] == noise and run["variant"] == DEFAULT]
        by_method = {run["method"]: run["epochs"] for run in shown}
        for method, style in STYLES.items():
            epochs = by_method[method]
            values = [100 * epoch["test_accuracy"] for epoch in epochs]
            axes.plot([epoch["epoch"] for epoch in epochs], values, style, label=method.replace("_", " "))
        axes.set_title(f"Test accuracy, {title}")
        mark_phases(axes, by_method["pencil"])
    panels[0].set_ylabel("percent")
    panels[1].legend(loc="lower right")
    figure.savefig(path, dpi=120)


def draw_labels(runs: Sequence[Run], path: Path) -> None:
    """The paper's Figures 2 and 3: how many labels are correct, by epoch."""
    pyplot = need("matplotlib.pyplot", extra="plots", purpose="draw figures")
    figure, panels = pyplot.subplots(1, 2, figsize=(10, 4), constrained_layout=True)
    for axes, (noise, title) in zip(panels, COUNTED.items(), strict=True):
        run = next(run for run in runs if (run["noise"], run["method"]) == (noise, "pencil"))
        counts = [round(epoch["labels_correct"] * run["examples"]) for epoch in run["epochs"]]
        axes.plot(
            [epoch["epoch"] for epoch in run["epochs"]], counts, STYLES["pencil"], marker="o", markersize=3
        )
        axes.axhline(counts[0], color="grey", linestyle=":")
        axes.set_title(f"{title}, of {run['examples']:,} rows")
        mark_phases(axes, run["epochs"])
        axes.yaxis.set_major_formatter("{x:,.0f}")
    panels[0].set_ylabel("correct labels")
    figure.savefig(path, dpi=120)


def mark_phases(axes: Any, epochs: Sequence[Run]) -> None:
    """Whole epochs below, and a thin line where a phase begins, with its name above the curves."""
    axes.margins(y=0.15)
    for before, epoch in zip([None, *epochs], epochs, strict=False):
        if before is None or before["phase"] != epoch["phase"]:
            begin = epoch["epoch"] - 0.5
            axes.axvline(begin, color="grey", linewidth=0.7)
            axes.text(begin + 0.1, 0.95, epoch["phase"], transform=axes.get_xaxis_transform(), color="grey")
    axes.set(xlabel="epoch", xticks=range(2, len(epochs) + 1, 2))
    axes.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    main()
