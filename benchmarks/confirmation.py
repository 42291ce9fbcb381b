"""The comparison's main claim again, on seeds 5 to 9, on which no setting was chosen.

    pencil bench GRID.toml --seeds 5,6,7,8,9 --only method=auto,pencil,cross_entropy,generalized_cross_entropy
    python benchmarks/confirmation.py --record RESULTS [RESULTS ...]     # adds the trainings of these folders
    python benchmarks/confirmation.py [--json]                           # table and figures

The grids are those of the comparison, ``benchmarks/grids/*_features.toml``, with ``--only variant=default``.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from pathlib import Path

from common import finish, write_lines

from pencil.bench import read_results
from pencil.engine import read_json_lines
from results import AUTO, Line, cells_of, differences

RECORDED = Path(__file__).parent / "results" / "confirmation.jsonl"
OTHERS = ("cross_entropy", "generalized_cross_entropy", "pencil")


def main() -> None:
    """Record trainings if asked to, then print table and figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", type=Path, nargs="+", default=[], metavar="RESULTS")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.record:
        record(arguments.record)
    lines = recorded()
    if not arguments.json:
        print(table(lines))
    finish(figures(lines), as_json=arguments.json)


def record(folders: Sequence[Path]) -> None:
    """Add the trainings of folders, in place of the same ones."""
    new = [line for folder in folders for line in read_results(folder / "results.jsonl")]
    named = {
        (each["data"], each["noise"], each["method"], each["seed"]): each for each in (*recorded(), *new)
    }
    write_lines(RECORDED, (named[key] for key in sorted(named)))


def recorded() -> list[Line]:
    """Every recorded training."""
    return read_json_lines(RECORDED)


def figures(lines: Sequence[Line]) -> dict[str, float]:
    """In how many cells ``auto`` is ahead of the other methods, and by more than a standard error."""
    found = [_lead(lines, cell) for cell in cells_of(lines)]
    return {
        "confirmation_cells": len(found),
        "confirmation_cells_ahead": sum(lead > 0 for lead, _ in found),
        "confirmation_cells_ahead_outside_error": sum(lead > error for lead, error in found),
    }


def _lead(lines: Sequence[Line], cell: tuple[str, str]) -> tuple[float, float]:
    """Points by which ``auto`` is ahead of the best other method over the same seeds, and their standard error."""
    best = min(differences(lines, cell, AUTO).values(), key=statistics.mean)
    return statistics.mean(best), statistics.stdev(best) / len(best) ** 0.5


def table(lines: Sequence[Line]) -> str:
    """Markdown: test accuracy in percent, mean over seeds; the lead over the best other method with its error."""
    rows = [
        "| data | noise | seeds | cross entropy | generalized cross entropy | PENCIL | auto | ahead of the best by |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for data, noise in cells_of(lines):
        of = {
            method: [100 * line["test_last"] for line in lines if _is_of(line, data, noise, method)]
            for method in (*OTHERS, AUTO)
        }
        lead, error = _lead(lines, (data, noise))
        shown = " | ".join(f"{statistics.mean(values):.1f}" for values in of.values())
        rows.append(f"| {data} | {noise} | {len(of[AUTO])} | {shown} | {lead:+.1f} ± {error:.1f} |")
    return "\n".join(rows)


def _is_of(line: Line, data: str, noise: str, method: str) -> bool:
    return (line["data"], line["noise"], line["method"]) == (data, noise, method)


if __name__ == "__main__":
    main()
