"""A run killed at any moment and resumed leaves, byte for byte, what an undisturbed run leaves.

    python benchmarks/faults/kills.py [--quick] [--seed 0] [--json]

SIGKILL comes at moments drawn by seed, and before calls by which a run writes (strace delivers it as the process enters
the call). One process trains, with rows in memory and in a mapped file; or two ranks do, of which one or both are
killed; or torchrun starts two ranks and starts them again when one was killed. Then the run is resumed and must end
with the labels, weights and metrics of a run that nobody disturbed. A run that ended before it was killed does not
count.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

if __name__ == "__main__":  # the folder of the benchmarks, not the one of this file
    sys.path.insert(0, str(Path(__file__).parents[1]))

import elastic
from common import followed, measure_by_command

from faults import work
from faults.warm import Job, Warm, warm

STORES = ("dense", "top:3:mapped")
CALLS = ("write", "fsync", "rename,unlink,unlinkat,rmdir,mkdir")
MOST_CALLS = 40  # of a kind, in one thread
RANKS = 2
TRIES = 20  # for each point: a run may end before it is killed
GRACE = 20.0  # seconds for a rank to notice that another is gone
Kill = Callable[[Path], list[Job]]
"""Begin a run in a folder and kill it: its processes."""


@dataclass(frozen=True)
class Amount:
    """How many points: by time and by call for each store, with two ranks, and under torchrun."""

    timed: int
    calls: int
    ranks: int
    torchrun: int


LONG, QUICK = Amount(timed=40, calls=45, ranks=30, torchrun=4), Amount(timed=1, calls=1, ranks=1, torchrun=0)


def measure(*, quick: bool, seed: int = 0) -> dict[str, int]:
    """How many runs were killed, and how many of them ended as if nothing had happened."""
    amount = QUICK if quick else LONG
    with warm() as (server, folder):
        work.write_data(folder / "data")
        draw = random.Random(seed)
        points = itertools.chain(
            *(one_process(server, folder, store, amount, draw) for store in STORES),
            two_ranks(server, folder, amount.ranks, draw),
            under_torchrun(folder, amount.torchrun, draw),
        )
        results = followed(points, "killed runs ended alike")
    return {"kill_points": len(results), "kill_points_identical": results.count("")}


@dataclass(frozen=True)
class Runs:
    """Runs of one kind.

    Attributes:
        server: Where processes come from.
        folder: Where everything lies.
        name: What they are called.
        store: Where rows live.
        ranks: Processes of a run.
    """

    server: Warm
    folder: Path
    name: str
    store: str
    ranks: int = 1

    @property
    def undisturbed(self) -> Path:
        """The run that nobody disturbs."""
        return self.folder / f"{self.name}-undisturbed"

    def begin(self, out: Path, *, traced: bool = False) -> list[Job]:
        """The processes of a new run."""
        return self._start(
            "faults.work:train", str(self.folder / "data"), str(out), self.store, traced=traced
        )

    def end(self, out: Path) -> list[str]:
        """Go on after a kill; what is wrong with the run that was resumed."""
        begun = (out / "config.toml").exists()
        jobs = self._start("faults.work:resume", str(out)) if begun else self.begin(out)
        try:
            for job in jobs:
                job.result()
        except RuntimeError as error:
            return [str(error)]
        return work.difference(out, self.undisturbed)

    def killed(self, kill: Kill, count: int) -> Iterator[str]:
        """What was wrong after each of so many kills; "" where nothing was."""
        done = 0
        for number in range(TRIES * count):
            out = self.folder / f"{self.name}-{number}"
            # A rank whose others are gone before they have met would wait; torchrun ends it.
            codes = [job.wait(GRACE) if self.ranks > 1 else job.wait() for job in kill(out)]
            if -9 in codes:
                done += 1
                yield "; ".join(f"{out.name}: {each}" for each in self.end(out))
            shutil.rmtree(out, ignore_errors=True)
            if done == count:
                return

    def _start(self, function: str, *values: str, traced: bool = False) -> list[Job]:
        return [
            self.server.start(function, *values, environment=each, traced=traced)
            for each in environments(self.ranks)
        ]


def environments(ranks: int) -> list[dict[str, str]]:
    """What torchrun would announce to each rank; nothing to one process."""
    if ranks == 1:
        return [{}]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    common = {
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
    }
    return [{**common, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(ranks)]


def one_process(server: Warm, folder: Path, store: str, amount: Amount, draw: random.Random) -> Iterator[str]:
    """Killed by time and by call."""
    runs = Runs(server, folder, store, store)
    seconds = undisturbed_seconds(runs)
    yield from runs.killed(partial(kill_by_time, runs, seconds, draw), amount.timed)
    if shutil.which("strace"):
        yield from runs.killed(partial(kill_by_call, runs, draw), amount.calls)
    else:
        print("strace is missing: no kills before system calls, only by time", file=sys.stderr)


def undisturbed_seconds(runs: Runs) -> float:
    """Carry out the run that the others are compared with; how long it takes."""
    begun = time.monotonic()
    for job in runs.begin(runs.undisturbed):
        assert job.result()
    return time.monotonic() - begun


def kill_by_time(runs: Runs, seconds: float, draw: random.Random, out: Path) -> list[Job]:
    """At any moment of a run; of several ranks one or all."""
    jobs = runs.begin(out)
    time.sleep(draw.uniform(0, seconds))
    for job in draw.choice([jobs, *([job] for job in jobs)]):
        job.kill()
    return jobs


def kill_by_call(runs: Runs, draw: random.Random, out: Path) -> list[Job]:
    """Before some thread's so many-th call of a kind."""
    (job,) = runs.begin(out, traced=True)
    calls, which = draw.choice(CALLS), draw.randint(1, MOST_CALLS)
    inject = f"inject={calls}:signal=SIGKILL:when={which}"
    words = ["-f", "-q", "-o", os.devnull, "-e", f"trace={calls}", "-e", inject]
    subprocess.run(["strace", *words, "-p", str(job.pid)], check=False, stderr=subprocess.DEVNULL)
    return [job]


def two_ranks(server: Warm, folder: Path, count: int, draw: random.Random) -> Iterator[str]:
    """One rank of two killed, or both; the other ends by itself."""
    runs = Runs(server, folder, "ranks", "dense", RANKS)
    seconds = undisturbed_seconds(runs)
    yield from runs.killed(partial(kill_by_time, runs, seconds, draw), count)


def under_torchrun(folder: Path, count: int, draw: random.Random) -> Iterator[str]:
    """A worker killed, all started again by torchrun itself."""
    if not count:
        return
    (folder / "torchrun").mkdir()
    for run in elastic.all_runs(folder / "torchrun", count, draw)[1:]:
        yield "" if run["completed"] and run["equal"] else f"torchrun: {run}"


if __name__ == "__main__":
    measure_by_command(measure, __doc__)
