"""``pencil example``: a small data set with wrong labels, to try things on."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from pencil.cli.options import as_json
from pencil.cli.output import print_json, say

KINDS = ("people", "images", "texts", "table")


@click.command()
@click.argument("kind", type=click.Choice(KINDS), default="people")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="A new folder.")
@click.option("--rows", type=click.IntRange(50), help="How many rows.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of all that is drawn.")
@as_json
def example(kind: str, out: Path, rows: int | None, seed: int, json_: bool) -> None:
    """Write a small data set with wrong labels, and its truth.

    The right labels are in truth.csv. KIND is people (features, with labels as people give them; the default), images,
    texts or table.
    """
    from pencil.data.example import write_example

    data = write_example(kind, out, rows, seed)
    encoder = " --embed ngrams" if kind == "texts" else ""
    command = f"pencil train {shlex.quote(str(data))}{encoder} --out {shlex.quote(str(out / 'run'))}"
    if json_:
        print_json({"data": str(data), "truth": str(out / "truth.csv"), "next": command})
    else:
        say(f"{data}: made up, with wrong labels; the right ones are in {out / 'truth.csv'}")
        say(f"next: {command}")
