"""``pencil export`` and ``pencil trusted``: write labels for other tools, and read annotations back."""

from __future__ import annotations

import csv
from pathlib import Path

import click

from pencil.cli.options import as_json, for_spreadsheet, max_false_relabels_option
from pencil.cli.output import print_json, say
from pencil.escape import spreadsheet_cell

SHOWN = 3


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--to",
    "tool",
    type=click.Choice(["label-studio", "fiftyone", "datasets", "cleanlab"]),
    required=True,
    help="The tool to write for.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    help="Label Studio: .json; FiftyOne: a folder; datasets: .parquet; cleanlab: .npz.",
)
@click.option(
    "--verdict",
    "verdicts",
    multiple=True,
    type=click.Choice(["keep", "relabel", "review", "drop"]),
    help="Only rows with this verdict. May be repeated.",
)
@click.option("--prefix", help="Text before each id that makes it the address of the image.")
@click.option(
    "--texts",
    type=click.Path(path_type=Path),
    help="Label Studio: show the texts from this .csv with the columns id and text. [default: those of a run on texts]",
)
@click.option("--distribution", is_flag=True, help="datasets: write the probability of every class too.")
@max_false_relabels_option
@as_json
def export(
    run: Path,
    tool: str,
    out: Path,
    verdicts: tuple[str, ...],
    prefix: str | None,
    texts: Path | None,
    distribution: bool,
    max_false_relabels: float | None,
    json_: bool,
) -> None:
    """Write RUN's labels for another tool.

    See docs/handover.md for how to open them in each tool.
    """
    from pencil.export.tools import ExportOptions, export
    from pencil.run import RunDirectory

    options = ExportOptions(verdicts, prefix, texts, distribution, max_false_relabels)
    written = export(RunDirectory.open(run), tool, out, options)
    files = [str(file) for file in written.files]
    if json_:
        print_json({"to": tool, "rows": written.rows, "files": files})
    else:
        say(f"{' and '.join(files)}: {written.rows:,} rows")


@click.command()
@click.argument("exported", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="A .csv file.")
@for_spreadsheet
@as_json
def trusted(exported: Path, out: Path, spreadsheet: bool, json_: bool) -> None:
    """Read annotated labels from a JSON export of Label Studio.

    Writes id and label of each example on which all annotators agree, for pencil train --trusted. Disputed examples and
    examples without a choice are counted and left out.
    """
    from pencil.export.label_studio import read_choices
    from pencil.results import writing

    found = read_choices(exported)
    with (
        writing(out, ".csv") as partial,
        partial.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file,
    ):
        cell = spreadsheet_cell if spreadsheet else str
        rows = ((cell(name), cell(label)) for name, label in found.labels.items())
        csv.writer(file).writerows([("id", "label"), *rows])
    counts = {"rows": len(found.labels), "disputed": len(found.disputed), "open": len(found.open)}
    if json_:
        print_json({"out": str(out), **counts})
        return
    say(
        f"{out}: {counts['rows']:,} labels; {counts['disputed']:,} disputed, {counts['open']:,} without a choice"
    )
    for name, classes in list(found.disputed.items())[:SHOWN]:
        say(f"disputed: {name}: {', '.join(classes)}")
