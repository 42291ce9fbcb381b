"""A grid carried out: every cell that has no result yet, several at a time; killed anywhere, it goes on."""

from __future__ import annotations

import contextlib
import fcntl
import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pencil.bench.grid import Cell, Grid
from pencil.bench.results import OUTDATED, RESULTS, Line, ResultsFile, key_of, read_results
from pencil.bench.workers import Job, Result, carry_out_all
from pencil.durable import make_folder
from pencil.errors import RunError

FAILURES = "failures.jsonl"


@dataclass(frozen=True)
class Finished:
    """A run that ended.

    Attributes:
        cells: Those it is for; runs of equal settings are carried out once.
        result: Its measures or its error.
        done, total: How many runs have ended, of how many that there were to carry out.
    """

    cells: Sequence[Cell]
    result: Result
    done: int
    total: int


@dataclass
class Outcome:
    """What there is after a grid was carried out.

    Attributes:
        lines: All results, in the order of the grid.
        skipped: How many cells had a result before.
        failed: The error of every cell that failed.
        missing: How many cells are left without a result or an error, because a signal came.
        outdated: How many earlier results are left out, because the grid has other settings for their cells now.
    """

    lines: list[Line] = field(default_factory=list)
    skipped: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    missing: int = 0
    outdated: int = 0


def run_grid(
    grid: Grid,
    out: Path,
    *,
    only: Sequence[str] = (),
    seeds: int | Sequence[int] | None = None,
    jobs: int = 1,
    keep: bool = False,
    progress: Callable[[Finished], None] = lambda finished: None,
) -> Outcome:
    """Carry out the cells of a grid that have no result in ``out`` yet.

    Args:
        grid: What to compare.
        out: Folder for results.jsonl and, in runs/, a run folder for every configuration.
        only: Filters such as ``method=pencil,cross_entropy``.
        seeds: The first so many seeds only, or these seeds.
        jobs: Processes, of one thread each.
        keep: Leave checkpoints and label parts of finished runs.
        progress: Called with every run that ends.
    """
    cells = grid.cells(only, seeds)
    with _alone(out):
        results = ResultsFile(out / RESULTS)
        outdated = _set_aside(results, grid, out)
        known = {(key_of(line), line.get("config_hash")) for line in read_results(out)}
        todo = [cell for cell in cells if (cell.key, cell.config_hash) not in known]
        outcome = Outcome(skipped=len(cells) - len(todo), outdated=outdated)
        _carry_out(todo, out, results, outcome, jobs=jobs, keep=keep, progress=progress)
        outcome.lines = results.put_in_order(cell.key for cell in grid.cells())
    return outcome


def _set_aside(results: ResultsFile, grid: Grid, out: Path) -> int:
    """Keep results of settings that the grid no longer has out of its results; how many there were.

    Before anything is run, so that a grid that is stopped or run in part has no such results either.
    """
    seeds = {*grid.seeds, *(line["seed"] for line in read_results(out))}  # results may have seeds of --seeds
    outdated = results.set_aside({cell.key: cell.config_hash for cell in grid.cells(seeds=sorted(seeds))})
    if outdated:
        warnings.warn(
            f"{out}: {outdated:,} results are left out, because the grid has other settings for their cells now; they "
            f"are kept in {OUTDATED}, and used again if the grid has their settings again",
            stacklevel=3,
        )
    return outdated


def _carry_out(
    todo: Sequence[Cell],
    out: Path,
    results: ResultsFile,
    outcome: Outcome,
    *,
    jobs: int,
    keep: bool,
    progress: Callable[[Finished], None],
) -> None:
    runs: dict[str, list[Cell]] = {}
    for cell in todo:
        runs.setdefault(cell.config_hash, []).append(cell)
    work = [Job(cells[0].config.table(), str(out / "runs" / name), keep=keep) for name, cells in runs.items()]
    (out / FAILURES).unlink(missing_ok=True)
    outcome.missing = len(todo)
    for done, (job, result) in enumerate(carry_out_all(work, jobs), start=1):
        cells = runs[Path(job.folder).name]
        for cell in cells:
            _note(cell, result, out, results, outcome)
        outcome.missing -= len(cells)
        progress(Finished(cells, result, done, len(work)))


def _note(cell: Cell, result: Result, out: Path, results: ResultsFile, outcome: Outcome) -> None:
    if result.measures is not None:
        results.append(result_line(cell, result.measures))
        return
    outcome.failed[str(cell)] = result.error or "failed"
    failure = {**_place(cell), "error": result.error, "trace": result.trace}
    with (out / FAILURES).open("a", encoding="utf-8") as file:
        file.write(json.dumps(failure) + "\n")


def result_line(cell: Cell, measures: Mapping[str, Any]) -> Line:
    """Which cell, what was measured, with what settings."""
    return {**_place(cell), **measures, "config_hash": cell.config_hash}


def _place(cell: Cell) -> Line:
    return {
        "data": cell.data,
        "noise": cell.noise,
        "method": cell.method,
        "variant": cell.variant,
        "seed": cell.seed,
    }


@contextlib.contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Two at a time would write into the same run folders. The lock ends with the process, however that ends."""
    try:
        make_folder(out)
        file = (out / ".lock").open("w")
    except OSError as error:
        raise RunError(
            f"--out {out}: no results can be kept there ({error.strerror or error}); choose another place"
        ) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(
                f"--out {out}: another pencil bench is at work there; wait, or choose another"
            ) from None
        yield
