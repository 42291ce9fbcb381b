"""The charts as .png files, drawn by matplotlib (extra ``plots``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pencil.durable import replacing
from pencil.escape import clipped
from pencil.imports import need
from pencil.report.charts.heat import STEPS, cell_number, level
from pencil.report.charts.intervals import reach_of
from pencil.report.contents import Report
from pencil.report.curves import Curve, curve, share_curves, spans, thinned
from pencil.report.findings import BINS
from pencil.report.matrix import MOST_CLASSES
from pencil.report.tables import class_rows, reliability

COLOURS = ("#1a5fb4", "#c4500a", "#00755e", "#8a3d7c")
DASHES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D")
VERDICT_COLOURS = ("#9fb3c8", "#d9822b", "#f2d16b", "#8c8c8c")
SQUARE = ("transition", "reliability")
HATCHES = ("", "//", "..", "xx")


def write_plots(report: Report, folder: Path) -> list[Path]:
    """Write all charts; return the files."""
    figure_module = need("matplotlib.figure", extra="plots", purpose="draw PNG figures")
    drawn = {
        "by_class": _by_class,
        "transition": _transition,
        "p_wrong": _p_wrong,
        **({"reliability": _reliability} if report.counts.truth.rows else {}),
        "changes": _changes,
        "accuracy": _accuracy,
    }
    files = []
    for name, draw in drawn.items():
        figure = figure_module.Figure(figsize=(8, 7) if name in SQUARE else (8, 4), layout="constrained")
        draw(report, figure.subplots())
        files.append(folder / f"{name}.png")
        with replacing(files[-1]) as partial:
            figure.savefig(partial, dpi=150, metadata={"Software": None})
    return files


def _p_wrong(report: Report, axes: Any) -> None:
    edges, base = [index / BINS for index in range(BINS)], [0] * BINS
    for index, (verdict, row) in enumerate(
        zip(report.counts.totals, report.counts.histogram.tolist(), strict=False)
    ):
        style = {"color": VERDICT_COLOURS[index], "hatch": HATCHES[index], "edgecolor": "#333333"}
        axes.bar(edges, row, 0.9 / BINS, bottom=base, align="edge", label=verdict, linewidth=0.4, **style)
        base = [low + more for low, more in zip(base, row, strict=True)]
    axes.set(xlabel="probability that the given label is wrong", ylabel="examples", xlim=(0, 1))
    axes.legend()


def _by_class(report: Report, axes: Any) -> None:
    rows = class_rows(report, MOST_CLASSES)[::-1]
    names = [clipped(row.name, 22).replace("$", r"\$") for row in rows]
    for place, row in enumerate(rows):
        axes.plot(
            [row.wrong.low, reach_of(row.wrong)], [place, place], color=COLOURS[0], linewidth=4, alpha=0.4
        )
        axes.plot(row.wrong.value, place, MARKERS[0], color=COLOURS[0])
        if row.truth is not None:
            axes.plot(row.truth, place, MARKERS[3], color=COLOURS[1])
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.set(xlabel="share of wrong labels, estimate with bounds", xlim=(0, None))


def _reliability(report: Report, axes: Any) -> None:
    axes.plot([0, 1], [0, 1], color="#888888", linestyle="--", linewidth=1)
    for point in reliability(report):
        axes.plot([point.predicted] * 2, [point.true.low, point.true.high], color=COLOURS[0])
        axes.plot(point.predicted, point.true.value, MARKERS[0], color=COLOURS[0])
    axes.set(
        xlabel="probability that the label is wrong", ylabel="share that is wrong", xlim=(0, 1), ylim=(0, 1)
    )


def _changes(report: Report, axes: Any) -> None:
    _draw(axes, report, [curve(thinned(report.lines), "labels_changed", "changed")])
    axes.set(xlabel="epoch", ylabel="labels that the method changed")


def _accuracy(report: Report, axes: Any) -> None:
    _draw(axes, report, share_curves(thinned(report.lines)))
    axes.set(xlabel="epoch", ylabel="share", ylim=(0, 1))


def _draw(axes: Any, report: Report, curves: list[Curve]) -> None:
    for index, span in enumerate(spans(report.lines)):
        axes.axvspan(span.first - 0.5, span.last + 0.5, color=("#f2f2f2", "#e2e8ee")[index % 2], linewidth=0)
        name = span.name.replace("$", r"\$")  # "$" would begin a formula
        axes.annotate(name, (span.first - 0.4, 1.01), xycoords=("data", "axes fraction"), fontsize=8)
    curves = [each for each in curves if each.points]
    for index, each in enumerate(curves):
        epochs, values = zip(*each.points, strict=True)
        axes.plot(
            epochs,
            values,
            color=COLOURS[index],
            linestyle=DASHES[index],
            marker=MARKERS[index],
            markevery=max(1, len(epochs) // 8),
            label=each.name,
        )
    if curves:
        axes.legend()


def _transition(report: Report, axes: Any) -> None:
    matrix = report.transition
    names = [clipped(report.class_names[index], 22).replace("$", r"\$") for index in matrix.classes]
    shades = [[level(share) for share in row] for row in matrix.shares]
    axes.imshow(shades, cmap="Blues", vmin=0, vmax=len(STEPS) + 1)
    for down, row in enumerate(matrix.shares):
        for across, share in enumerate(row):
            if level(share):
                colour = "white" if level(share) > 5 else "black"
                axes.text(
                    across, down, cell_number(share), ha="center", va="center", fontsize=7, color=colour
                )
    axes.set_xticks(range(len(names)), names, rotation=60, ha="right", fontsize=7)
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.set(xlabel="given class", ylabel="true class")
