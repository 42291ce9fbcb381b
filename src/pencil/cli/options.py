"""Arguments and options shared by several commands."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pencil.cli.output import say
from pencil.errors import ConfigError

if TYPE_CHECKING:
    from pencil.data import Beside

run_argument = click.argument("run", type=click.Path(path_type=Path))
set_option = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="PATH=VALUE",
    help="Set one value, e.g. method.label_rate=0.5.",
)
as_json = click.option("--json", "json_", is_flag=True, help="Print the result as one line of JSON.")
trust_code_option = click.option(
    "--trust-code",
    is_flag=True,
    help="Import the code that the file or run names. It is listed first.",
)
expert_option = click.option(
    "--expert",
    is_flag=True,
    help="Predict with the network and the prototypes together; RUN was trained with --start prototypes.",
)
changed_data_option = click.option(
    "--changed-data", is_flag=True, help="Continue although the data has changed since the run was trained."
)


images_option = click.option(
    "--images",
    type=click.Path(path_type=Path),
    help="Images to show for rows of features: a folder, or a table with the columns id and path; "
    "matched by id, or by the order of the rows.",
)
texts_option = click.option(
    "--texts",
    type=click.Path(path_type=Path),
    help="Texts to show for rows of features: a table with the columns id and text, or a .txt file with a line "
    "for each row.",
)


def beside(images: Path | None, texts: Path | None) -> Beside | None:
    """The images or texts of --images or --texts."""
    from pencil.data import Beside

    if images is not None and texts is not None:
        raise ConfigError("--images and --texts: a row is shown as one of them; leave out the other")
    if images is not None:
        return Beside("images", images)
    return None if texts is None else Beside("texts", texts)


def user_name() -> str:
    """Who runs this command, as far as the system knows; a container may have a user without a name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


def share(text: str) -> float:
    """A share such as 5% or 0.05, for the type of an option: a number between 0 and 1."""
    plain = text.strip()
    try:
        found = float(plain.removesuffix("%")) / (100 if plain.endswith("%") else 1)
    except ValueError:
        found = -1.0
    if not 0 <= found <= 1:
        raise click.BadParameter(f"{text!r} is not a share; use a number such as 5% or 0.05")
    return found


max_false_relabels_option = click.option(
    "--max-false-relabels",
    type=share,
    metavar="SHARE",
    help="Relabel as many rows as the estimate allows with at most this share of wrong labels among them, e.g. 5%. "
    "[default: the run's setting, 10% if it has none]",
)
for_spreadsheet = click.option(
    "--spreadsheet",
    is_flag=True,
    help="CSV only: put ' before cells that a spreadsheet would run as a formula. This changes such ids.",
)
"""Off by default, because programs that read the table need the ids unchanged."""


def announce_code(named: Mapping[str, str], source: object) -> None:
    """Print the code that --trust-code is about to import."""
    for field, code in named.items():
        say(f"importing {code}, which {source} names as {field}")


def allow_current_folder(named: Mapping[str, str], said: Collection[str]) -> None:
    """Append the current folder to the import path if the command line itself names code to import."""
    folder = str(Path.cwd())
    if any(code in said for code in named.values()) and folder not in sys.path:
        sys.path.append(folder)
