"""``pencil report``: write a report on a finished run as HTML, and optionally its charts and a summary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pencil.cli.options import (
    as_json,
    beside,
    changed_data_option,
    images_option,
    max_false_relabels_option,
    texts_option,
)
from pencil.cli.output import print_json, say
from pencil.errors import ConfigError

EXAMPLES, MOST_EXAMPLES = 24, 100


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="An .html file. [default: RUN/report.html]")
@click.option(
    "--figures",
    type=click.Path(path_type=Path),
    help="A folder for the charts as SVG and, with [plots], PNG.",
)
@click.option("--markdown", type=click.Path(path_type=Path), help="An .md file for the summary.")
@click.option(
    "--examples",
    type=click.IntRange(1, MOST_EXAMPLES),
    default=EXAMPLES,
    show_default=True,
    help="Number of corrections and of cases to review to show.",
)
@click.option("--no-data", is_flag=True, help="Do not read the run's data: no thumbnails.")
@images_option
@texts_option
@max_false_relabels_option
@changed_data_option
@as_json
def report(
    run: Path,
    out: Path | None,
    figures: Path | None,
    markdown: Path | None,
    examples: int,
    no_data: bool,
    images: Path | None,
    texts: Path | None,
    max_false_relabels: float | None,
    changed_data: bool,
    json_: bool,
) -> None:
    """Write a report on RUN as one HTML file that works offline.

    The report shows which labels seem wrong and with what confidence, the noise by class, the metrics by epoch, the
    surest corrections and the cases to review, with thumbnails if the data are images.
    """
    from pencil.audit import newest_statements
    from pencil.report import gather, write_figures, write_markdown, write_page
    from pencil.run import LabelTable, RunDirectory

    shown = beside(images, texts)
    if no_data and shown is not None:
        raise ConfigError(
            f"--no-data and --{shown.kind} cannot be combined: {shown.kind} are matched to the rows of the data; "
            "leave out one of the two"
        )
    directory = RunDirectory.open(run)
    found = gather(
        directory,
        audit=newest_statements(run, LabelTable.open(directory, max_false_relabels).described_rule),
        examples=examples,
        read_data=not no_data,
        changed_data=changed_data,
        max_false_relabels=max_false_relabels,
        beside=shown,
    )
    page = out or run / "report.html"
    written: dict[str, Any] = {"out": str(page), "bytes": write_page(found, page)}
    if markdown is not None:
        write_markdown(found, markdown)
        written["markdown"] = str(markdown)
    missing = None
    if figures is not None:
        files, missing = write_figures(found, figures)
        written["figures"] = [str(file) for file in files]
    notes = [*found.notes, *([missing] if missing else [])]
    if json_:
        print_json({**written, **found.totals, "notes": notes})
        return
    for note in notes:
        say(note)
    say(f"{page}: {written['bytes'] / 1000:,.0f} kB")
