"""Options that several commands share, and what stands behind them."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from pathlib import Path

import click

from pencil.cli.output import say

as_json = click.option("--json", "json_", is_flag=True, help="Print the result as one line of JSON.")
trust_code_option = click.option(
    "--trust-code",
    is_flag=True,
    help="Import the code that the file or run names; it is listed first.",
)
changed_data_option = click.option(
    "--changed-data", is_flag=True, help="Go on although the data is not what the run was trained on."
)
for_spreadsheet = click.option(
    "--spreadsheet",
    is_flag=True,
    help="Of a .csv: put ' before cells that a spreadsheet would take for a formula; such ids do not come back.",
)
"""Not the default: whoever reads the table by program needs the ids as they are."""


def tell_code(named: Mapping[str, str], source: object) -> None:
    """Say what --trust-code is about to import."""
    for field, code in named.items():
        say(f"importing {code}, which {source} names as {field}")


def allow_current_folder(named: Mapping[str, str], said: Collection[str]) -> None:
    """Put the current folder last on the import path, where the command line itself names code to import."""
    folder = str(Path.cwd())
    if any(code in said for code in named.values()) and folder not in sys.path:
        sys.path.append(folder)
