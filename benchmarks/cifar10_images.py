"""CIFAR-10 images from scratch, symmetric 50 %: cross entropy beside PENCIL, and the paper's Fig. 2.

    python benchmarks/cifar10_images.py --out runs/cifar10 --figure docs/figures/cifar10_symmetric_50.png

Two processes with one thread each, within an hour on two cores; killed and started again, it continues. Both methods
share data, noise, network, phases and optimiser (the preset ``cifar10``). The best epoch is chosen on the held-out
10 % of the training rows, whose labels are noisy too; the test set is only read.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from common import cifar10_folder, finish

from pencil.engine import read_json_lines
from pencil.errors import need
from pencil.run import RunDirectory

METHODS = ("cross_entropy", "pencil")


def main() -> None:
    """Train both, then compare and draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("runs/cifar10_images"))
    parser.add_argument("--figure", type=Path, help="where to draw the figure (PNG)")
    parser.add_argument("--rate", type=float, default=0.5)
    parser.add_argument("--set", action="append", default=[], help="a setting for both, as in pencil train")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    data = cifar10_folder(arguments.out / "data")
    running = [
        start(arguments.out / method, data, method, arguments.rate, arguments.set) for method in METHODS
    ]
    if any(process.wait() for process in running):
        sys.exit("a run was stopped or failed; start again to continue it")
    runs = {method: RunDirectory.open(arguments.out / method) for method in METHODS}
    if arguments.figure:
        draw(runs, arguments.figure, arguments.rate)
    finish(compare(runs), as_json=arguments.json)


def start(out: Path, data: Path, method: str, rate: float, settings: list[str]) -> subprocess.Popen[bytes]:
    """One run in a process of its own with one thread; continues what is there."""
    pencil = [sys.executable, "-m", "pencil"]
    new = [*pencil, "train", str(data), "--noise", f"symmetric:{rate}", "--method", method, "--out", str(out)]
    chosen = [word for setting in settings for word in ("--set", setting)]
    command = [*pencil, "resume", str(out)] if (out / "config.toml").exists() else [*new, *chosen]
    return subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=sys.stderr)


def compare(runs: dict[str, RunDirectory]) -> dict[str, float]:
    """Best (by noisy validation) and last test accuracy, their difference, and correct labels, in percent."""
    figures: dict[str, float] = {}
    for method, run in runs.items():
        best, last = run.summary["best"]["test_accuracy"], run.summary["last"]["test_accuracy"]
        figures[f"{method}_best"] = round(100 * best, 2)
        figures[f"{method}_last"] = round(100 * last, 2)
        figures[f"{method}_drop"] = round(100 * (best - last), 2)
    lines = read_json_lines(runs["pencil"].metrics)
    figures["labels_before"] = round(100 * lines[0]["labels_correct"], 2)
    figures["labels_after"] = round(100 * lines[-1]["labels_correct"], 2)
    return figures


def draw(runs: dict[str, RunDirectory], path: Path, rate: float) -> None:
    """Left: correct labels by epoch (the paper's Fig. 2). Right: test accuracy of both methods."""
    pyplot = need("matplotlib.pyplot", extra="plots", purpose="draw figures")
    figure, (labels, accuracy) = pyplot.subplots(1, 2, figsize=(10, 4), constrained_layout=True)
    lines = {method: read_json_lines(run.metrics) for method, run in runs.items()}
    epochs = [line["epoch"] for line in lines["pencil"]]
    rows = runs["pencil"].summary["examples"]
    labels.plot(epochs, [line["labels_correct"] * rows for line in lines["pencil"]], "C0-")
    labels.set(title=f"PENCIL's correct labels of {rows:,}, symmetric {rate:.0%}", ylabel="correct labels")
    for style, method in (("C1--", "cross_entropy"), ("C0-", "pencil")):
        values = [100 * line["test_accuracy"] for line in lines[method]]
        accuracy.plot(epochs, values, style, label=method.replace("_", " "))
    accuracy.set(title="Test accuracy", ylabel="percent")
    accuracy.legend(loc="lower right")
    for axes in (labels, accuracy):
        mark_phases(axes, lines["pencil"])
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def mark_phases(axes: Any, lines: list[dict[str, Any]]) -> None:
    """Whole epochs below, and a thin line where a phase begins, with its name above the curves."""
    axes.margins(y=0.12)
    for before, line in zip([None, *lines], lines, strict=False):
        if before is None or before["phase"] != line["phase"]:
            begin = line["epoch"] - 0.5
            axes.axvline(begin, color="grey", linewidth=0.7)
            axes.text(begin + 0.2, 0.95, line["phase"], transform=axes.get_xaxis_transform(), color="grey")
    axes.set(xlabel="epoch", xticks=range(2, len(lines) + 1, 2))
    axes.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    main()
