"""The figure of docs/comparison.md: every cell, with PENCIL as in the paper and ``auto``."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pencil.imports import need

Line = Mapping[str, Any]
NAMES = {"cub": "CUB-200", "cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}
TOLD = ("forward_known", "clean", "oracle", "co_teaching", "dividemix")
"""Methods that receive what is unknown in practice, and those with two networks."""


def draw(lines: Sequence[Line], auto: str, path: Path) -> None:
    """A row for each cell, a panel for each data set; a point is the mean over seeds of the last epoch's accuracy."""
    pyplot = need("matplotlib.pyplot", extra="plots", purpose="draw figures")
    cells = [(data, noises_of(lines, data)) for data in dict.fromkeys(line["data"] for line in lines)]
    heights = [len(noises) for _, noises in cells]
    figure, panels = pyplot.subplots(
        len(cells),
        1,
        figsize=(8, 0.27 * sum(heights) + 2),
        height_ratios=heights,
        constrained_layout=True,
        squeeze=False,
    )
    for axes, (data, noises) in zip(panels[:, 0], cells, strict=True):
        for row, noise in enumerate(noises):
            draw_cell(axes, -row, means_of(lines, data, noise), auto)
        axes.set_yticks([-row for row in range(len(noises))], [shown(noise) for noise in noises])
        axes.set_title(NAMES.get(data, data), loc="left", fontsize=10)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x", linewidth=0.4)
    panels[-1, 0].set_xlabel("test accuracy of the last epoch, percent")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    by_label = dict(zip(labels, handles, strict=True))
    figure.legend(by_label.values(), by_label, loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def draw_cell(axes: Any, height: float, means: Mapping[str, float], auto: str) -> None:
    """The points of one cell, on a line from cross entropy to the oracle."""
    peers = {name: value for name, value in means.items() if name not in (*TOLD, "pencil", auto)}
    axes.plot(
        [means["cross_entropy"], means["oracle"]], [height, height], color="0.85", linewidth=3, zorder=1
    )
    points = (
        ("cross entropy", means["cross_entropy"], "x", "0.45"),
        ("best other method told nothing", max(peers.values()), "s", "C1"),
        ("PENCIL from given labels", means["pencil"], "o", "C0"),
        ("auto: PENCIL from the closed-form start", means.get(auto), "D", "C3"),
        ("oracle", means["oracle"], "|", "0.2"),
    )
    for label, value, marker, color in points:
        if value is not None:
            axes.scatter(value, height, marker=marker, color=color, s=30, label=label, zorder=2)


def shown(noise: str) -> str:
    """A noise of the grids for people: symmetric_20 is symmetric 20 %."""
    return re.sub(r" (\d+)$", r" \1 %", noise.replace("_", " "))


def noises_of(lines: Sequence[Line], data: str) -> list[str]:
    """The noises of a data set, in order."""
    return list(dict.fromkeys(line["noise"] for line in lines if line["data"] == data))


def means_of(lines: Sequence[Line], data: str, noise: str) -> dict[str, float]:
    """The mean accuracy of each method in a cell, in percent."""
    found: dict[str, list[float]] = {}
    for line in lines:
        if (line["data"], line["noise"]) == (data, noise):
            found.setdefault(line["method"], []).append(100 * line["test_last"])
    return {method: statistics.mean(values) for method, values in found.items()}
