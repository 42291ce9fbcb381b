"""Reports on finished runs: one HTML file, figures, and a summary in Markdown."""

from pencil.report.contents import Report, gather
from pencil.report.figures import Figure, figures, write_figures
from pencil.report.markdown import write_markdown
from pencil.report.page import page, write_page

__all__ = [
    "Figure",
    "Report",
    "figures",
    "gather",
    "page",
    "write_figures",
    "write_markdown",
    "write_page",
]
