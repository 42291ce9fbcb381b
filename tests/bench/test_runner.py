"""Grids carried out by real processes: stopped, killed, failing, resumed."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from pencil.bench import Grid, read_results, run_grid
from pencil.errors import RunError

pytestmark = pytest.mark.slow

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
MODELS = """
import os, signal
import torch

def dies(**_):
    os.kill(os.getpid(), signal.SIGKILL)

class Fails(torch.nn.Linear):
    def forward(self, inputs):
        if self.training:
            raise ZeroDivisionError("no luck")
        return super().forward(inputs)

def fails(num_classes, input_shape):
    return Fails(input_shape[0], num_classes)
"""


def start(grid, out, *words):
    program = [sys.executable, "-m", "pencil", "bench", str(grid), "--out", str(out), "--jobs", "2", *words]
    return subprocess.Popen(
        program, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )


def finish(process):
    out, _ = process.communicate(timeout=120)
    return process.returncode, json.loads(out.splitlines()[-1]) if out else None


def half_done(out):
    """Runs with a checkpoint that are not finished."""
    runs = [path.parent.parent for path in out.glob("runs/*/checkpoints/step-*")]
    return [run for run in runs if not (run / "summary.json").exists()]


def wait_until(process, condition):
    while process.poll() is None and not condition():
        time.sleep(0.03)
    assert process.poll() is None, "it ended too soon"


def children(process):
    return [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def without_seconds(lines):
    return [{name: value for name, value in line.items() if name != "seconds"} for line in lines]


@pytest.fixture(scope="module")
def undisturbed(grid_file, tmp_path_factory):
    out = tmp_path_factory.mktemp("bench") / "undisturbed"
    outcome = run_grid(Grid.read(grid_file), out, jobs=2)
    assert (len(outcome.lines), outcome.missing, outcome.failed) == (8, 0, {})
    return out


def test_stopped_then_killed_then_run_again_a_grid_ends_with_the_same_results(
    grid_file, undisturbed, tmp_path
):
    out = tmp_path / "disturbed"
    process = start(grid_file, out, "--json")
    wait_until(process, lambda: half_done(out))
    process.send_signal(signal.SIGINT)
    code, told = finish(process)
    assert code == 3
    assert told["results"] + told["missing"] == 8
    assert told["failed"] == 0

    process = start(grid_file, out, "--json")
    already = len(read_results(out))
    begun = {}  # runs that were half done a moment before the kill, and when they were begun

    def half_way():
        begun.update({run: (run / "config.toml").stat().st_mtime_ns for run in half_done(out)})
        return len(read_results(out)) > already and begun

    wait_until(process, half_way)
    workers = children(process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    finished = read_results(out)
    assert workers
    deadline = time.monotonic() + 120
    while any(
        Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes() for pid in workers
    ):
        assert time.monotonic() < deadline, "workers outlive their parent"
        time.sleep(0.01)
    with (out / "results.jsonl").open("a") as file:
        file.write('{"data": "points", "noi')

    outcome = run_grid(Grid.read(grid_file), out, jobs=2)
    assert (len(outcome.lines), outcome.skipped, outcome.failed) == (8, len(finished), {})
    assert without_seconds(read_results(out)) == without_seconds(read_results(undisturbed))
    assert len((out / "results.jsonl").read_text().splitlines()) == 8
    assert all(line in read_results(out) for line in finished)
    assert {run: (run / "config.toml").stat().st_mtime_ns for run in begun} == begun
    assert not list(out.glob("runs/*/checkpoints"))
    assert not list(out.glob("runs/*/labels"))


def test_finished_cells_are_skipped_and_changed_ones_are_not(grid_file, undisturbed, tmp_path):
    before = (undisturbed / "results.jsonl").read_bytes()
    grid = Grid.read(grid_file)
    outcome = run_grid(grid, undisturbed)
    assert (outcome.skipped, len(outcome.lines), outcome.failed) == (8, 8, {})
    assert (undisturbed / "results.jsonl").read_bytes() == before
    copy = tmp_path / "copy"
    shutil.copytree(undisturbed, copy)
    changed, heard = Grid.of({**grid.table, "validation": 0.2}), []
    with pytest.warns(UserWarning, match=r"8 results are left out, .* kept in outdated.jsonl"):
        outcome = run_grid(
            changed, copy, only=["noise=circular_20", "method=pencil"], seeds=1, progress=heard.append
        )
    assert [(each.done, each.total) for each in heard] == [(1, 1)]
    assert (outcome.skipped, outcome.outdated) == (0, 8)
    assert [line["examples"] for line in outcome.lines] == [480]  # none of the old settings beside it
    assert (copy / "outdated.jsonl").read_bytes() == before
    with pytest.warns(UserWarning, match="1 results are left out"):
        outcome = run_grid(grid, copy)
    assert outcome.skipped == 8
    assert (copy / "results.jsonl").read_bytes() == before


def test_failing_cells_are_told_and_the_others_go_on(grid_file, tmp_path, monkeypatch):
    (tmp_path / "bad_models.py").write_text(MODELS)
    monkeypatch.syspath_prepend(str(tmp_path))
    table = tomllib.loads(grid_file.read_text()) | {"ceilings": True}
    table["noise"].append({"name": "lost", "data": {"noise": {"kind": "file", "path": "no-such-file.npy"}}})
    table["variant"] = [
        {"name": name, "methods": ["pencil"], "model": {"name": f"bad_models:{name}"}}
        for name in ("dies", "fails")
    ]
    heard = []
    outcome = run_grid(
        Grid.of(table),
        tmp_path / "out",
        only=["noise=lost,circular_20", "method=pencil,clean"],
        seeds=1,
        jobs=1,
        progress=heard.append,
    )
    assert outcome.failed["points circular_20 pencil/dies seed 0"].startswith(
        "its process was killed by SIGKILL"
    )
    assert outcome.failed["points circular_20 pencil/fails seed 0"] == "ZeroDivisionError: no luck"
    assert "no-such-file.npy" in outcome.failed["points lost pencil seed 0"]
    done = [(line["noise"], line["method"], line["variant"]) for line in outcome.lines]
    assert done == [
        ("circular_20", "pencil", "default"),
        ("circular_20", "clean", "default"),
        ("lost", "clean", "default"),
    ]
    assert len(heard) == 7  # eight cells, but one training for both clean ones
    failures = [json.loads(line) for line in (tmp_path / "out" / "failures.jsonl").read_text().splitlines()]
    assert len(failures) == len(outcome.failed) == 5
    assert any("in forward" in (failure["trace"] or "") for failure in failures)


def test_two_at_once_in_a_folder_are_refused(grid_file, tmp_path):
    import fcntl

    with (tmp_path / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(RunError, match="another pencil bench is at work there"):
            run_grid(Grid.read(grid_file), tmp_path)
