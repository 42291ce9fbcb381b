"""``pencil bench``: run a grid of experiments, and show tables of its results."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pencil.cli.options import announce_code, as_json, trust_code_option
from pencil.cli.output import duration, is_terminal, percent, print_json, print_pairs, print_text, say
from pencil.errors import MissingExtraError
from pencil.escape import printable

if TYPE_CHECKING:
    from pencil.bench import Finished, Outcome

STOPPED, FAILED = 3, 1  # exit codes
METRICS = (
    *("last", "expert", "best", "validation", "labels_before", "labels_after"),
    *(
        "precision",
        "recall",
        "f1",
        "auroc",
        "average_precision",
        "precision_at_100",
        "precision_at_1_percent",
    ),
    *("posterior_labels_after", "posterior_f1"),
    *("posterior_auroc", "posterior_average_precision", "posterior_precision_at_100"),
    *("posterior_precision_at_1_percent", "calibration_error", "seconds", "forward_passes"),
)


def _seeds(text: str) -> int | list[int]:
    """A number of seeds, or several seeds themselves."""
    try:
        numbers = [int(word) for word in text.rstrip(",").split(",")]
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a number; write 3, or seeds such as 5,6,7") from None
    return numbers if "," in text else numbers[0]


class _Bench(click.Group):
    """A group whose first argument may be a grid file instead of a command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, *self.get_help_option_names(ctx)):
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_Bench)
def bench() -> None:
    """Compare methods: run a grid of experiments and show its tables.

    `pencil bench GRID.toml` runs every cell of the grid (see: pencil bench run --help); `pencil bench table FOLDER`
    shows tables of the results.
    """


@bench.command()
@click.argument("grid", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path), help="Folder for results. [default: bench/<grid's name>]"
)
@click.option(
    "--jobs", type=click.IntRange(1), help="Processes at a time, each with one thread. [default: all cores]"
)
@click.option(
    "--only",
    multiple=True,
    metavar="AXIS=NAMES",
    help="Run these cells only, e.g. method=pencil,cross_entropy. AXIS is data, noise, method or variant. "
    "May be repeated; names of one axis add up.",
)
@click.option(
    "--seeds", type=_seeds, metavar="N", help="Use the first N seeds only; or these seeds: 5,6,7 (one: 5,)."
)
@click.option("--keep", is_flag=True, help="Keep checkpoints and label files in the run folders.")
@trust_code_option
@as_json
@click.option("--quiet", is_flag=True, help="Show no progress.")
def run(
    grid: Path,
    out: Path | None,
    jobs: int | None,
    only: tuple[str, ...],
    seeds: int | list[int] | None,
    keep: bool,
    trust_code: bool,
    json_: bool,
    quiet: bool,
) -> None:
    """Run the cells of GRID that have no result yet.

    GRID is a TOML file with the data, noises, methods, variants and seeds to combine; see docs/bench.md. Run the same
    command again to continue after a stop. Exit code 1: some cells failed; 3: stopped by a signal.
    """
    from pencil.bench import Grid, run_grid
    from pencil.run import check_code, code_in
    from pencil.run.method import load_method

    folder = out or Path("bench") / grid.stem
    chosen = Grid.read(grid)
    named = {
        code: field for cell in chosen.cells(only, seeds) for field, code in code_in(cell.config).items()
    }
    for code, field in named.items():
        check_code({field: code}, trust_code, source=grid)
        announce_code({field: code}, grid)
    for cell in chosen.cells(only, seeds):
        load_method(cell.config)  # finds mistakes in its settings before the first run
    progress = _silent if quiet else _Bar() if is_terminal() else _Lines()
    try:
        outcome = run_grid(
            chosen,
            folder,
            only=only,
            seeds=seeds,
            jobs=jobs or os.cpu_count() or 1,
            keep=keep,
            progress=progress,
        )
    finally:
        progress.close()
    _write_parquet(folder, outcome)
    _report(folder, outcome, json_)


@bench.command()
@click.argument("results", type=click.Path(path_type=Path))
@click.option(
    "--format", "style", type=click.Choice(["markdown", "latex"]), default="markdown", show_default=True
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    type=click.Choice(METRICS),
    help="The metric to show. May be repeated. [default: best and last]",
)
@click.option("--against", metavar="METHOD", help="Add differences to this method, paired by seed.")
def table(results: Path, style: Any, metrics: tuple[str, ...], against: str | None) -> None:
    """Show tables of RESULTS: methods by noise, averaged over seeds.

    RESULTS is a folder written by pencil bench, or its results.jsonl.
    """
    from pencil.bench import compare, read_results, tabulate

    lines = read_results(results)
    print_text(tabulate(lines, metrics, style))
    if against is not None:
        print_text("\n" + compare(lines, against, metrics or ("last",), style))


def describe(finished: Finished) -> str:
    """A finished run as one line of text."""
    cell, result = finished.cells[0], finished.result
    if result.measures is None:
        return f"{cell}  failed: {result.error}"
    last = result.measures["test_last"]
    return f"{cell}  {f'test {percent(last)}' if last is not None else 'done'}"


class _Silent:
    def __call__(self, finished: Finished) -> None:
        pass

    def close(self) -> None:
        pass


_silent = _Silent()


class _Lines:
    """Prints a line per run, with the estimated time left."""

    def __init__(self) -> None:
        self._begun = time.monotonic()

    def __call__(self, finished: Finished) -> None:
        say(f"{finished.done}/{finished.total}  {describe(finished)}  {self._left(finished)} left")

    def _left(self, finished: Finished) -> str:
        done, total = finished.done, finished.total
        return duration((time.monotonic() - self._begun) / done * (total - done))

    def close(self) -> None:
        pass


class _Bar(_Lines):
    """Shows a bar, the time left and the last finished run; failures are printed above the bar."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        super().__init__()
        columns = (
            BarColumn(bar_width=12),
            TextColumn(
                "{task.completed}/{task.total}  {task.fields[left]} left  {task.fields[last]}", markup=False
            ),
        )
        self._progress = Progress(*columns, console=Console(stderr=True))
        self._task = self._progress.add_task("", total=None, left="?", last="")
        self._progress.start()

    def __call__(self, finished: Finished) -> None:
        if finished.result.measures is None:
            self._progress.console.print(printable(describe(finished)), markup=False, highlight=False)
        self._progress.update(
            self._task,
            completed=finished.done,
            total=finished.total,
            left=self._left(finished),
            last=printable(describe(finished)),
        )

    def close(self) -> None:
        self._progress.stop()


def _write_parquet(folder: Path, outcome: Outcome) -> None:
    from pencil.bench import write_parquet

    try:
        if outcome.lines:
            write_parquet(folder / "results.parquet", outcome.lines)
    except MissingExtraError as error:
        say(f"no results.parquet: {error}")


def _report(folder: Path, outcome: Outcome, json_: bool) -> None:
    counts = {
        "results": len(outcome.lines),
        "skipped": outcome.skipped,
        "failed": len(outcome.failed),
        "missing": outcome.missing,
        "outdated": outcome.outdated,
    }
    if json_:
        print_json({"bench": str(folder), **counts, "errors": outcome.failed})
    else:
        print_pairs({"bench": folder, **counts})
        for cell, error in outcome.failed.items():
            say(f"failed: {cell}: {error}")
        say(f"next: pencil bench table {folder}")
    if outcome.missing:
        sys.exit(STOPPED)
    if outcome.failed:
        sys.exit(FAILED)
