"""Runs under torchrun that lose a worker to SIGKILL in mid-epoch, and what becomes of them.

    python benchmarks/elastic.py [--runs 10] [--seed 0] [--json] [--lines FILE]

Two ranks train on synthetic features with a checkpoint every few steps. In each run one worker, drawn by seed, is
killed after a random step; torchrun starts both again with the same command line. A run is completed when a worker was
killed, torchrun ends well and the labels name every row exactly once. ``runs_equal``: how many left, byte for byte,
the labels and the model of an undisturbed run. ``seconds_median``: from start to end, the restart included.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import finish

from pencil.identity import unsealed
from pencil.run import RunDirectory, judged_labels

ROWS, DIMS, CLASSES = 3000, 32, 10
STEPS = 7 * ROWS // 60
LIMIT = 180.0  # seconds until a run is given up
TRAIN = ("--noise", "symmetric:0.3", "--epochs", "1,4,2", "--quiet", "--json")
SETTINGS = ("train.batch_size=60", "checkpoint.steps=7", "method.label_rate=2.0")
Disturb = Callable[["subprocess.Popen[bytes]", Path], dict[str, Any]]
# Without the first, torchrun's own restart is flaky: the ranks' meeting place dies with the worker that held it.
ENVIRONMENT = {**os.environ, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "OMP_NUM_THREADS": "1"}


def main() -> None:
    """Run all, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--lines", type=Path, help="append one line of JSON per run to this file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = all_runs(Path(folder), arguments.runs, random.Random(arguments.seed))
    if arguments.lines:
        with arguments.lines.open("a") as file:
            file.writelines(json.dumps(result) + "\n" for result in results)
    finish(figures(*results), as_json=arguments.json)


def all_runs(folder: Path, runs: int, draw: random.Random) -> list[dict[str, Any]]:
    """An undisturbed run, then those that lose a worker."""
    write_features(folder / "features.npz")
    results = [one_run(folder, "undisturbed", lambda *_: {})]
    if not results[0]["completed"]:
        raise SystemExit("the undisturbed run failed; its messages are above")
    for number in range(runs):
        disturb = partial(
            kill_worker, draw.randrange(2), draw.randrange(STEPS * 9 // 10), draw.uniform(0, 0.1)
        )
        result = one_run(folder, f"run-{number}", disturb)
        result["completed"] = result["completed"] and result["killed"]
        result["equal"] = same_results(folder / f"run-{number}", folder / "undisturbed")
        print(json.dumps(result), file=sys.stderr)
        results.append(result)
    return results


def one_run(folder: Path, name: str, disturb: Disturb) -> dict[str, Any]:
    """Start, disturb, wait for the end."""
    out, begun, told = folder / name, time.monotonic(), dict[str, Any]()
    process = subprocess.Popen(command(folder, out), env=ENVIRONMENT, stdout=subprocess.DEVNULL)
    try:
        told |= disturb(process, out)
        process.wait(LIMIT)
    except subprocess.TimeoutExpired:
        process.terminate()
    code, seconds = process.wait(), round(time.monotonic() - begun, 2)
    return {"run": name, "completed": code == 0 and rows_are_whole(out), "seconds": seconds, **told}


def command(folder: Path, out: Path) -> list[str]:
    """The one command line, of the first start and of every restart."""
    launch = (
        "torch.distributed.run",
        "--standalone",
        "--nproc_per_node=2",
        "--max-restarts=3",
        "-m",
        "pencil",
    )
    train = ("train", str(folder / "features.npz"), "--out", str(out), *TRAIN)
    return [sys.executable, "-m", *launch, *train, *(word for each in SETTINGS for word in ("--set", each))]


def kill_worker(
    rank: int, step: int, delay: float, launcher: subprocess.Popen[bytes], out: Path
) -> dict[str, Any]:
    """Kill the worker of a rank some moments after the first checkpoint from a step on."""
    while (found := newest_step(out)) < step and launcher.poll() is None:
        time.sleep(0.01)
    time.sleep(delay)
    workers = [worker for worker in children(launcher.pid) if rank_of(worker) == rank]
    for worker in workers:
        os.kill(worker, signal.SIGKILL)
    return {"killed": len(workers) == 1, "rank": rank, "after_step": found, "and_seconds": round(delay, 3)}


def newest_step(out: Path) -> int:
    """The step of the newest checkpoint, or -1."""
    return max((int(path.name[5:]) for path in out.glob("checkpoints/step-*")), default=-1)


def children(parent: int) -> list[int]:
    """The processes a process has started."""
    file = Path(f"/proc/{parent}/task/{parent}/children")
    return [int(number) for number in file.read_text().split()] if file.exists() else []


def rank_of(process: int) -> int | None:
    """The rank that torchrun gave a worker."""
    words = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    return next((int(word[5:]) for word in words if word.startswith(b"RANK=")), None)


def rows_are_whole(out: Path) -> bool:
    """Whether the labels name every row exactly once."""
    if not (out / "summary.json").exists():
        return False
    chunks, _ = judged_labels(RunDirectory.open(out))
    return sorted(int(row) for chunk in chunks for row in chunk.ids) == list(range(ROWS))


def same_results(out: Path, expected: Path) -> bool:
    """Whether labels and model are the same bytes."""
    files = ["model.safetensors", *(f"labels/0000{rank}-00000.safetensors" for rank in range(2))]
    return all((out / f).exists() and unsealed(out / f) == unsealed(expected / f) for f in files)


def figures(undisturbed: dict[str, Any], *runs: dict[str, Any]) -> dict[str, float]:
    """What the runs come to."""
    return {
        "runs": len(runs),
        "runs_completed": sum(run["completed"] for run in runs),
        "runs_equal": sum(run["equal"] for run in runs),
        "rows_each": ROWS,
        "seconds_median": statistics.median(run["seconds"] for run in runs),
        "seconds_undisturbed": undisturbed["seconds"],
    }


def write_features(file: Path) -> None:
    """Gaussian blobs."""
    generator = np.random.default_rng(0)
    labels = generator.integers(CLASSES, size=ROWS)
    centers = 2 * generator.normal(size=(CLASSES, DIMS))
    features = centers[labels] + generator.normal(size=(ROWS, DIMS))
    np.savez(file, X=features.astype(np.float32), y=labels)


if __name__ == "__main__":
    main()
