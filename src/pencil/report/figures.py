"""The report's charts: for the page, as .svg files and, if matplotlib is installed, as .png files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pencil.durable import make_folder, write_text
from pencil.errors import ConfigError, MissingExtraError
from pencil.report.charts import confidence_chart, heat_chart, line_chart, standalone, verdict_chart
from pencil.report.contents import Report
from pencil.report.curves import curve, share_curves, spans, thinned
from pencil.report.findings import BINS
from pencil.report.text import percent, whole_percent

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
    made = (
        _verdicts(report, legend),
        _confidence(report),
        _changes(report),
        _accuracy(report),
        _transition(report),
    )
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


def _confidence(report: Report) -> Figure:
    histogram: list[list[int]] = report.counts.histogram[: len(report.counts.totals)].tolist()
    rows, top = max(report.counts.rows, 1), sum(row[-1] for row in histogram)
    title = "How sure the run is of each label"
    words = (
        f"{percent(top / rows)} of the examples have a confidence of at least {whole_percent(1 - 1 / BINS)}."
    )
    return Figure("confidence", title, words, confidence_chart("confidence", title, words, histogram))


def _changes(report: Report) -> Figure:
    lines = thinned(report.lines)
    changed = curve(lines, "labels_changed", "Changed")
    title = "Labels that differ from the given ones, by epoch"
    words = (
        f"{int(changed.points[-1][1]):,} after the last epoch."
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
    words = f"Each row is a suggested class, assumed to be true, and adds up to 100 % over all classes.{part}"
    svg = heat_chart("transition", title, words, names, matrix.shares)
    return Figure("transition", title, words, svg)
