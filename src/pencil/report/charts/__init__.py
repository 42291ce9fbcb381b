"""Charts as SVG. Each chart is a pure function of plain values that returns the text of an ``<svg>``."""

from pencil.report.charts.bars import confidence_chart, verdict_chart
from pencil.report.charts.heat import heat_chart
from pencil.report.charts.lines import line_chart
from pencil.report.charts.svg import standalone

__all__ = ["confidence_chart", "heat_chart", "line_chart", "standalone", "verdict_chart"]
