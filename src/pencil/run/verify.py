"""Checks a whole run in one pass: formats, identities, seals, links, and whether its parts belong together."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import torch

from pencil.engine.checkpoint import damage
from pencil.errors import PencilError, RunError
from pencil.identity import RUN, run_id, seal_problem
from pencil.results import POSTERIOR, DecisionReader, SavedLabels, read_card, was_reviewed
from pencil.results.decisions import reading
from pencil.results.files import damaged
from pencil.run.directory import RunDirectory, own_folders
from pencil.run.kept_beliefs import is_belief
from pencil.run.label_table import LabelTable
from pencil.run.trusted import DATA, TRUSTED
from pencil.stores import rows_at_once

BEGUN = (RUN, DATA, TRUSTED, "environment.json")
SUM = 1e-2  # what probabilities in half precision may differ from 1 in sum


class Checked(NamedTuple):
    """What was checked, and what is wrong with it, remedy included; None if nothing is."""

    what: str
    problem: str | None


def verify_run(folder: Path) -> Iterator[Checked]:
    """Check a run, and yield what was checked as it goes."""
    opened = tried(RUN, lambda: _check_format(folder))
    yield opened
    if opened.problem is not None:
        return
    directory = RunDirectory(folder)
    yield tried("config.toml", lambda: directory.config)
    files = [file for place in own_folders(folder) for file in sorted(place.iterdir())]
    sealed = [_file(folder, file) for file in files if file.suffix in (".json", ".safetensors")]
    yield from sealed
    for path in sorted(directory.checkpoints.glob("step-*")):
        problem = damage(path)
        remedy = f"remove it, and an older one is used: {directory.resume_command}"
        yield Checked(f"checkpoints/{path.name}", problem and f"{path}: {problem}; {remedy}")
    if directory.is_finished and not any(each.problem for each in sealed):
        yield tried("rows", lambda: _check_rows(directory))
    if was_reviewed(folder):
        yield tried("review.sqlite", lambda: _check_review(directory))


def _file(folder: Path, file: Path) -> Checked:
    problem = seal_problem(file, run_id(folder))
    remedy = "restore it from a backup" if file.name in BEGUN else None  # training writes all others again
    return Checked(str(file.relative_to(folder)), problem and str(damaged(file, problem, remedy)))


def tried(what: str, check: Callable[[], object]) -> Checked:
    """Check something, and say what is wrong with it, if anything is."""
    try:
        check()
    except PencilError as error:
        return Checked(what, str(error))
    return Checked(what, None)


def _check_format(folder: Path) -> None:
    RunDirectory.open(folder)
    if run_id(folder) is None:
        raise RunError(
            f"{folder}: is from before runs had ids and checksums, so nothing can be compared; convert it with: "
            f"pencil resume {folder}"
        )


def _check_rows(directory: RunDirectory) -> None:
    """Labels and posterior are about the same rows, whose probabilities are some."""
    table = LabelTable.open(directory, entry=0)
    size = rows_at_once(len(table.class_names))
    for labels, posterior in zip(table.saved.chunks(size), table.posterior.chunks(size), strict=True):
        same = labels.ids == posterior.ids and torch.equal(labels.given.values, posterior.given.values)
        if not same:
            raise RunError(f"{directory.path / POSTERIOR}: is about other rows than labels; restore both")
    for judged in table.chunks():
        belief = judged.distribution
        total = belief.sum(dim=1) if isinstance(belief, torch.Tensor) else belief.dense().sum(dim=1)
        if not is_belief(belief) or bool(((total - 1).abs() > SUM).any()):
            raise RunError(f"{directory.path / POSTERIOR}: holds no probabilities; restore it from a backup")


def _check_review(directory: RunDirectory) -> None:
    with reading(directory.path) as history:
        try:
            (found,) = history.execute("PRAGMA integrity_check(1)").fetchone()
        except sqlite3.DatabaseError as error:
            found = str(error)
    if found != "ok":
        raise RunError(f"{directory.path / 'review.sqlite'}: {found}; restore it from a backup")
    if directory.is_finished:
        names = read_card(directory.path).class_names
        decisions = DecisionReader(directory.path, len(names))
        for chunk in SavedLabels(directory.path, len(names), {}).chunks(rows_at_once(1)):
            decisions.take(chunk.ids)
        decisions.finish()
