"""``pencil verify``: whether a run is whole."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from pencil.cli.options import as_json, run_argument
from pencil.cli.output import print_json, print_text, say


@click.command()
@run_argument
@as_json
def verify(run: Path, json_: bool) -> None:
    """Check that RUN is whole and was not changed.

    This covers formats, ids, checksums and links, and whether its parts belong together. Exits with 1 if something is
    wrong, and prints each problem with its remedy.
    """
    from pencil.audit.log import read_audits
    from pencil.run.verify import tried, verify_run

    checked = [*verify_run(run), tried("audit.jsonl", lambda: read_audits(run))]
    problems = [each.problem for each in checked if each.problem is not None]
    if json_:
        print_json({"run": str(run), "checked": len(checked), "problems": problems})
    else:
        for problem in problems:
            say(f"error: {problem}")
        print_text(f"{run}: {len(checked)} parts checked, {len(problems)} of them with problems")
    sys.exit(1 if problems else 0)
