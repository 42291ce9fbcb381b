"""The report's charts: for the page, as .svg files and, if matplotlib is installed, as .png files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pencil.durable import make_folder, write_text
from pencil.errors import ConfigError, MissingExtraError
from pencil.estimates import Interval
from pencil.report.charts import (
    heat_chart,
    histogram_chart,
    interval_chart,
    line_chart,
    reliability_chart,
    standalone,
    verdict_chart,
)
from pencil.report.contents import Report
from pencil.report.curves import curve, share_curves, spans, thinned
from pencil.report.findings import BINS
from pencil.report.matrix import MOST_CLASSES, Transition
from pencil.report.tables import class_rows, reliability
from pencil.report.text import between, percent, whole_percent

STYLE = Path(__file__).parent / "templates" / "charts.css"


@dataclass(frozen=True)
class Figure:
    """A chart: its name, title, description and SVG for a page that has the style."""

    name: str
    title: str
    words: str
    svg: str

    def svg_file(self) -> str:
        """The text of an .svg file, with its own colours."""
        return standalone(self.svg, STYLE.read_text(encoding="utf-8"))

    def _repr_svg_(self) -> str:
        """What a notebook shows."""
        return self.svg_file().partition("\n")[2]  # without the XML declaration


def figures(report: Report, *, legend: bool = True) -> dict[str, Figure]:
    """Return all charts by name; ``legend=False`` leaves out the legend of verdicts, which the page adds itself."""
    made = [_verdicts(report, legend), _by_class(report), _transition(report), _p_wrong(report)]
    if report.counts.truth.rows:
        made.append(_reliability(report))
    made += [_changes(report), _accuracy(report)]
    return {figure.name: figure for figure in made}


def write_figures(report: Report, folder: Path) -> tuple[list[Path], str | None]:
    """Write every chart as SVG and, with the extra ``plots``, as PNG; return the files and a note on missing PNGs."""
    files = []
    try:
        make_folder(folder)
        for figure in figures(report).values():
            files.append(folder / f"{figure.name}.svg")
            write_text(files[-1], figure.svg_file())
        try:
            from pencil.report.plots import write_plots

            return files + write_plots(report, folder), None
        except MissingExtraError as error:
            return files, f"no PNG files: {error}"
    except OSError as error:
        raise ConfigError(
            f"--figures {folder}: cannot be written ({error.strerror or error}); choose another place"
        ) from error


def _verdicts(report: Report, legend: bool) -> Figure:
    totals = report.counts.totals
    words = ", ".join(f"{verdict} {total:,}" for verdict, total in totals.items())
    title, words = "What to do with the labels", f"Examples: {words}."
    svg = verdict_chart("verdicts", title, words, [*totals.values()], legend=legend)
    return Figure("verdicts", title, words, svg)


def _by_class(report: Report) -> Figure:
    rows = class_rows(report, MOST_CLASSES)
    names, shares = [row.name for row in rows], [row.wrong for row in rows]
    truth = [row.truth or 0.0 for row in rows] if report.counts.truth.rows else None
    title = "Wrong labels by given class"
    part = (
        ""
        if len(rows) == len(report.class_names)
        else f"The {len(rows)} classes with the most wrong labels. "
    )
    words = f"{part}Each estimate is a share of the labels of the class, with bounds."
    return Figure("by_class", title, words, interval_chart("by_class", title, words, names, shares, truth))


def _p_wrong(report: Report) -> Figure:
    histogram: list[list[int]] = report.counts.histogram[: len(report.counts.totals)].tolist()
    clear = sum(row[0] for row in histogram) / max(report.counts.rows, 1)
    title = "How likely each label is wrong"
    words = f"{percent(clear)} of the labels are wrong with a probability below {whole_percent(1 / BINS)}."
    return Figure("p_wrong", title, words, histogram_chart("p_wrong", title, words, histogram))


def _reliability(report: Report) -> Figure:
    points = reliability(report)
    off = sum(each.rows * abs(each.predicted - each.true.value) for each in points) / max(
        report.counts.rows, 1
    )
    title = "Can the probabilities be relied on?"
    words = (
        "Labels of similar probability, and how many of them are wrong. On the diagonal both are equal; the mean "
        f"distance from it (expected calibration error) is {percent(off)}."
    )
    return Figure("reliability", title, words, reliability_chart("reliability", title, words, points))


def _changes(report: Report) -> Figure:
    lines = thinned(report.lines)
    changed = curve(lines, "labels_changed", "Changed")
    title = "Labels that the method changed, by epoch"
    words = (
        f"{int(changed.points[-1][1]):,} after the last epoch. The network was trained on these labels; verdicts and "
        "suggestions come from the estimates."
        if changed.points
        else "No epochs were recorded."
    )
    svg = line_chart(
        "changes",
        title,
        words,
        [changed],
        spans(report.lines),
        show=lambda value: f"{value:,.0f}",
        label="labels",
    )
    return Figure("changes", title, words, svg)


def _accuracy(report: Report) -> Figure:
    curves = share_curves(thinned(report.lines))
    ends = ", ".join(f"{each.name.lower()} {percent(each.points[-1][1])}" for each in curves)
    title = "Accuracy and agreement, by epoch"
    words = f"After the last epoch: {ends}." if curves else "No accuracy was measured."
    svg = line_chart("accuracy", title, words, curves, spans(report.lines), show=whole_percent, high=1.0)
    return Figure("accuracy", title, words, svg)


def _transition(report: Report) -> Figure:
    matrix = report.transition
    names = [report.class_names[index] for index in matrix.classes]
    title = "Estimated transition matrix: how each class is labelled, in percent"
    part = (
        ""
        if matrix.is_whole
        else (
            f" Only the {len(names)} of {len(report.class_names):,} classes with the most changes are shown."
        )
    )
    words = f"Each row is a true class and adds up to 100 % over all classes.{part}"
    svg = heat_chart("transition", title, words, names, matrix.shares, cell_words(matrix))
    return Figure("transition", title, words, svg)


def cell_words(matrix: Transition) -> list[list[str]]:
    """Each entry (M, M) with its bounds, and the true share if it is known."""
    return [
        [
            _cell_words(cell, None if matrix.truth is None else matrix.truth[down][across])
            for across, cell in enumerate(row)
        ]
        for down, row in enumerate(matrix.cells)
    ]


def _cell_words(cell: Interval | None, truth: float | None) -> str:
    estimate = "too small to be kept" if cell is None else f"{percent(cell.value)} ({between(cell)})"
    return estimate if truth is None else f"{estimate}, in truth {percent(truth)}"
