"""Charts as SVG. Each chart is a pure function of plain values that returns the text of an ``<svg>``."""

from pencil.report.charts.bars import histogram_chart, verdict_chart
from pencil.report.charts.heat import heat_chart
from pencil.report.charts.intervals import Point, interval_chart, reliability_chart
from pencil.report.charts.lines import line_chart
from pencil.report.charts.svg import standalone

__all__ = [
    "Point",
    "heat_chart",
    "histogram_chart",
    "interval_chart",
    "line_chart",
    "reliability_chart",
    "standalone",
    "verdict_chart",
]
