"""The page on reproducing the paper: every cell of its tables, our command, what it would take, what was measured.

    python benchmarks/reproduction.py --write docs/reproduction.md
    python benchmarks/reproduction.py --check docs/reproduction.md
    python benchmarks/reproduction.py --record RUN --where "one A100"      # adds a run of one of the commands

The paper's figures come from reproduction.toml beside this file, ours from results/, written by the benchmarks and by
``--record``. It takes a finished run with the settings of a command on the page, and a run of a command at a shorter
schedule, finished or not: fewer epochs, and where needed another ``method.label_rate`` and ``train.precision``. The
latter is listed in a table of its own and does not count as run; recording it again later replaces its line. A run with
other settings is refused. For instance, at a quarter of the epochs of one experiment (four times the label rate moves
labels as far in all), then both lines again when more epochs are done:

    python benchmarks/reproduction.py --record runs/pencil --where "one thread of a Xeon"
    python benchmarks/reproduction.py --record runs/cross_entropy --where "one thread of a Xeon"
    python benchmarks/reproduction.py --write docs/reproduction.md
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import reproduction_shorter as shorter
from reproduction_cells import Cell, Recorded, add, cells, config_of, fixed, is_of, read_paper
from reproduction_page import page

from pencil.config import RunConfig
from pencil.run import RunDirectory


def main() -> None:
    """Write or check the page, or add a run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", type=Path, metavar="PAGE")
    action.add_argument("--check", type=Path, metavar="PAGE")
    action.add_argument("--record", type=Path, metavar="RUN")
    parser.add_argument("--where", help="the machine a recorded run ran on")
    arguments = parser.parse_args()
    if arguments.record:
        if not arguments.where:
            parser.error("--record needs --where: the machine it ran on")
        record(arguments.record, arguments.where)
    elif arguments.write:
        arguments.write.write_text(page(), encoding="utf-8")
    elif arguments.check.read_text(encoding="utf-8") != page():
        sys.exit(f"{arguments.check} is not what the data says; write it again with --write")


def record(run: Path, where: str) -> None:
    """Add a finished run of one of the page's commands, or a run of one at a shorter schedule."""
    directory = RunDirectory.open(run)
    config = directory.config
    cell = next((each for each in cells(read_paper()) if is_of(config, each)), None)
    if cell is None:
        record_shorter(directory, where)
        return
    directory.require_finished()
    summary = directory.summary
    best, last = summary.get("best"), summary["last"]
    found = Recorded(
        cell.preset,
        cell.flags,
        config.seed,
        None if best is None else round(100 * best["test_accuracy"], 2),
        round(100 * last["test_accuracy"], 2),
        None if "labels_correct" not in last else round(100 * last["labels_correct"], 2),
        where,
    )
    add(found)


def record_shorter(directory: RunDirectory, where: str) -> None:
    """Add a run of a command with fewer epochs, or write it anew; refuse any other."""
    config = directory.config
    cell, papers = shortened_cell(config, directory.path)
    line = shorter.Shorter(
        preset=cell.preset,
        flags=cell.flags,
        seed=config.seed,
        settings=shorter.differing(fixed(config), papers),
        where=where,
        **shorter.measured(directory),
    )
    shorter.add(line)
    print(f"recorded at a shorter schedule: epoch {line.done} of {line.planned} of {cell.preset}")


def shortened_cell(config: RunConfig, run: Path) -> tuple[Cell, dict[str, Any]]:
    """The one cell of which the run is a shorter schedule, with the settings of its command."""
    ours = fixed(config)
    commands = [
        (cell, fixed(config_of(cell, config.data.path))) for cell in cells(read_paper()) if not cell.absent
    ]
    fitting = [(cell, papers) for cell, papers in commands if not shorter.refused(ours, papers)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        names = ", ".join(cell.preset for cell, _ in fitting)
        sys.exit(f"{run}: its settings are a shorter schedule of several commands on the page: {names}")
    nearest, papers = min(commands, key=lambda command: len(shorter.refused(ours, command[1])))
    sys.exit(
        f"{run}: its settings are not those of any command on the page, nor a shorter schedule of one; "
        f"{nearest.preset}, the nearest, differs in {', '.join(shorter.refused(ours, papers))}"
    )


if __name__ == "__main__":
    main()
