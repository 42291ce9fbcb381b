"""The work that faults interrupt, on data that takes a moment: train, resume, index, bench, labels, report, review.

Every function is a job of a forked process (``warm``) and takes and returns plain values.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import sqlite3
import tarfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pencil import run
from pencil.bench import measure, runner
from pencil.bench.grid import Grid
from pencil.bench.workers import Job, Result
from pencil.cli.main import cli
from pencil.config import RunConfig
from pencil.configure import train_config
from pencil.engine import Event
from pencil.engine.checkpoint import damage
from pencil.identity import unsealed
from pencil.results.review_file import REVIEW_FILE
from pencil.review import Review
from pencil.review.history import Who

ROWS, DIMS, CLASSES = 180, 6, 4
STOP_AT = 17
SETTINGS = (
    *("checkpoint.steps=5", "train.batch_size=20", "method.label_rate=4.0", "data.validation=0.1"),
    *("model.name=mlp", "model.args.hidden=[8]", "model.args.dropout=0.5"),
)
GRID = """
seeds = 1
[base]
preset = "features"
data.path = "POINTS"
data.validation = 0.1
phases.backbone.epochs = 1
phases.correction.epochs = 1
phases.finetune.epochs = 1
train.batch_size = 30
checkpoint.steps = 4
[[data]]
name = "points"
[[noise]]
name = "symmetric_40"
data.noise = { kind = "symmetric", rate = 0.4 }
[[method]]
name = "cross_entropy"
[[method]]
name = "pencil"
"""
DECISIONS = ("accept", "keep", "drop", "accept", "skip", "keep")


def write_data(folder: Path) -> None:
    """Points of a few classes, the same as shards, and a grid of runs on them."""
    generator = np.random.default_rng(0)
    labels = generator.integers(CLASSES, size=ROWS)
    values = 2 * generator.normal(size=(CLASSES, DIMS))[labels] + generator.normal(size=(ROWS, DIMS))
    folder.mkdir()
    np.savez(folder / "points.npz", X=values.astype(np.float32), y=labels)
    (folder / "grid.toml").write_text(GRID.replace("POINTS", str(folder / "points.npz")))
    for shard in range(3):
        _write_shard(folder / f"{shard}.tar", values[shard::3], labels[shard::3])


def _write_shard(path: Path, values: Any, labels: Any) -> None:
    with tarfile.open(path, "w") as tar:
        for row, (value, label) in enumerate(zip(values, labels, strict=True)):
            array = io.BytesIO()
            np.save(array, value.astype(np.float32))
            for suffix, content in (("npy", array.getvalue()), ("cls", str(label).encode())):
                member = tarfile.TarInfo(f"{row:04d}.{suffix}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))


class Notes:
    """Remembers the step at which a run began; asks it to stop after another."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.begun = -1
        self._stop_at = stop_at

    def handle(self, event: Event) -> None:
        """Take note."""
        if event.kind == "begin":
            self.begun = event.step
        if event.kind == "step" and event.step == self._stop_at:
            os.kill(os.getpid(), signal.SIGTERM)

    def close(self) -> None:
        """Nothing to close."""


def train(data: str, out: str, store: str, stop_at: int | None = None) -> bool:
    """A run from the beginning; whether it was finished."""
    settings = (*SETTINGS, f"store={store}")
    chosen = train_config(
        f"{data}/points.npz", None, None, noise="symmetric:0.4", epochs="1,2,1", seed=5, settings=settings
    )
    return run.train(chosen, Path(out), [Notes(stop_at)]).is_finished


def resume(out: str) -> int:
    """Go on to the end; the step at which it began, -1 where it was finished."""
    notes = Notes()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="checkpoint")  # none is damaged
        assert run.resume(Path(out), [notes]).is_finished
    return notes.begun


def command(*words: str) -> None:
    """A command of pencil's, quietly."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        cli.main(list(words), standalone_mode=False)


def bench(data: str, out: str, tell: Any = lambda _: None) -> None:
    """The grid, its runs in this process: what is between the processes touches no file."""
    vars(runner)["carry_out_all"] = _in_this_process
    outcome = runner.run_grid(Grid.read(Path(data) / "grid.toml"), Path(out), progress=tell)
    assert not outcome.failed, outcome.failed


def _in_this_process(jobs: Sequence[Job], workers: int) -> Iterator[tuple[Job, Result]]:
    for job in jobs:
        config = RunConfig.of(job.settings)
        yield job, Result(measure.carry_out(config, Path(job.folder), keep=job.keep))


def decide(out: str, tell: Any = lambda _: None) -> None:
    """Some decisions of a review; those that were made before are passed over."""
    review = Review(run.RunDirectory.open(Path(out)))
    try:
        item = review.take("window")["items"][0]
        for number in range(len(decisions(out)), len(DECISIONS)):
            answer = review.decide(
                Who("somebody", "window"), str(number), [(item["row"], item["version"])], DECISIONS[number]
            )
            tell(number)
            item = answer["items"][0]
    finally:
        review.close()


def decisions(out: str) -> list[list[Any]]:
    """What a review's file holds, which must be whole."""
    file = Path(out) / REVIEW_FILE
    if not file.exists():
        return []
    with contextlib.closing(sqlite3.connect(file)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'history'").fetchall():
            return []
        found = database.execute("SELECT row, action, label FROM history ORDER BY entry").fetchall()
    return [list(entry) for entry in found]


def difference(out: Path, expected: Path) -> list[str]:
    """What a finished run left that is not what an undisturbed one left."""
    labels = sorted(path.name for path in (expected / "labels").iterdir())
    files = ["model.safetensors", "model.json", *(f"labels/{name}" for name in labels)]
    found = [
        f"{name} differs"
        for name in files
        if not (out / name).exists() or unsealed(out / name) != unsealed(expected / name)
    ]
    if metrics(out) != metrics(expected):
        found.append("metrics.jsonl differs")
    if not (out / "summary.json").exists():
        found.append("summary.json is missing")
    return found


def metrics(out: Path) -> list[dict[str, Any]]:
    """A run's epochs, without the one thing that two equal runs differ in."""
    lines = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
    return [{name: value for name, value in line.items() if name != "seconds"} for line in lines]


def newest_step(out: Path) -> int:
    """The step of the newest checkpoint, which must be whole; 0 where there is none."""
    newest = max((out / "checkpoints").glob("step-*"), default=None)
    if newest is None:
        return 0
    problem = damage(newest)
    assert problem is None, f"{newest.name}: {problem}"
    return int(newest.name[5:])
