"""The figures of ``images_auto.py``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pencil.imports import need

Epochs = Sequence[Mapping[str, Any]]
TITLES = {"test_accuracy": "Test accuracy", "labels_correct": "Correct labels of the training images"}


def draw_epochs(runs: Mapping[str, Epochs], path: Path) -> None:
    """Test accuracy and correct labels by epoch, as in the paper's Figures 2 and 3; a line for each run.

    A noise has one colour; lines of runs with few images are dashed.
    """
    pyplot = need("matplotlib.pyplot", extra="plots", purpose="draw figures")
    figure, panels = pyplot.subplots(1, 2, figsize=(11, 4.5), constrained_layout=True)
    noises = list(dict.fromkeys(map(_noise, runs)))
    for axes, (name, title) in zip(panels, TITLES.items(), strict=True):
        for run, epochs in runs.items():
            style = f"C{noises.index(_noise(run))}" + ("--" if "9,000" in run else "-")
            axes.plot(
                [each["epoch"] for each in epochs], [100 * each[name] for each in epochs], style, label=run
            )
        _mark_correction(axes, next(iter(runs.values())))
        axes.set(title=title, xlabel="epoch")
        axes.margins(y=0.12)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("percent")
    lines, names = panels[0].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _noise(run: str) -> str:
    """The noise in the name of a run, which ends with the number of images."""
    return run.rpartition(", ")[0]


def _mark_correction(axes: Any, epochs: Epochs) -> None:
    begin = next(each["epoch"] for each in epochs if each["phase"] == "correction")
    axes.axvline(begin - 0.5, color="grey", linewidth=0.7)
    across = axes.get_xaxis_transform()
    axes.text(begin - 0.7, 0.02, "correction begins", transform=across, color="grey", ha="right")


def draw_memorised(plain: Epochs, epochs: Epochs, path: Path) -> None:
    """Cross entropy until its last epoch, and ``auto``, which goes back to the epoch that agreed best."""
    pyplot = need("matplotlib.pyplot", extra="plots", purpose="draw figures")
    figure, axes = pyplot.subplots(figsize=(7.5, 4.2), constrained_layout=True)
    back = max(each["epoch"] for each in epochs if each["phase"] == "backbone")
    own = [each for each in epochs if each["epoch"] >= back]
    for name, style, shown in (("cross entropy", "C7-", plain), ("auto", "C0-", own)):
        values = [100 * each["test_accuracy"] for each in shown]
        axes.plot([each["epoch"] for each in shown], values, style)
        end = (shown[-1]["epoch"], values[-1])
        axes.annotate(f"{name} {values[-1]:.1f}", end, (6, -3), textcoords="offset points")
    axes.plot(back, 100 * own[0]["test_accuracy"], "C0o")
    axes.set(title="Test accuracy", xlabel="epoch", ylabel="percent")
    axes.set_xlim(0, 1.25 * plain[-1]["epoch"])
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
