"""Trainings on several hosts that lose a process, a host or a link, and what becomes of them.

    PYTHONPATH=benchmarks python -m faults.hosts [--quick] [--seed 0]

Hosts are network namespaces with addresses of their own (``namespaces``), one rank each, started by torchrun as on a
cluster. Each run suffers one fault at a step drawn by seed. It survives when everything ended as it should and the
labels, the weights and the metrics (without seconds) are byte for byte those of an undisturbed run. A run that fewer
hosts continue is compared with an undisturbed one that as many hosts continue from the same step: another number of
ranks sums in another order.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import elastic

from faults.namespaces import LINK, Host, hosts, unavailable
from pencil.identity import unsealed

LIMIT = 400.0  # seconds that anything may take, on a busy machine
SILENCE = 8  # train.timeout_seconds
FLICKER = 3.0  # seconds: shorter than that
ALL = 1_000_000  # checkpoints to keep of an undisturbed run
ENVIRONMENT = {**elastic.ENVIRONMENT, "GLOO_SOCKET_IFNAME": LINK}


class Unexpected(Exception):
    """A run that did not go as its fault should let it."""


@dataclass
class Job:
    """A training in one folder, by one rank on each of its hosts."""

    place: Sequence[Host]
    out: Path
    restarts: int = 3
    keep: int = 2
    launchers: dict[Host, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, *which: Host) -> Job:
        """Start torchrun on hosts: the first time on all, later on those that join again."""
        data = str(self.out.parent / "features.npz")
        settings = (f"train.timeout_seconds={SILENCE}", f"checkpoint.keep={self.keep}", *elastic.SETTINGS)
        train = ("train", data, "--out", str(self.out), *elastic.TRAIN, *_each("--set", settings))
        self._launch(which, train)
        return self

    def resume(self) -> Job:
        """Start torchrun on all hosts, to continue what is in the folder."""
        self._launch(self.place, ("resume", str(self.out), "--quiet"))
        return self

    def _launch(self, which: Iterable[Host], action: Sequence[str]) -> None:
        head = self.place[0]
        for host in which:
            launch = (
                f"--nnodes={len(self.place)}",
                "--nproc_per_node=1",
                f"--max-restarts={self.restarts}",
                "--rdzv_backend=c10d",
                f"--rdzv_id={self.out.name}",
                f"--rdzv_endpoint={head.address}:29400",  # nobody else is on this network
                f"--rdzv_conf=is_host={int(host is head)}",
                f"--local_addr={host.address}",
            )
            command = [sys.executable, "-m", "torch.distributed.run", *launch, "-m", "pencil", *action]
            self.launchers[host] = host.start(command, ENVIRONMENT, self.log(host))

    def log(self, host: Host) -> Path:
        """What was said on a host."""
        return self.out.with_name(f"{self.out.name}-host{host.number}.log")

    def workers(self, *which: Host) -> list[int]:
        """The ranks' processes on some hosts."""
        return [each for host in which for each in elastic.children(self.launchers[host].pid)]

    def reach(self, step: int) -> None:
        """Wait for the first checkpoint from a step on."""
        until(lambda: elastic.newest_step(self.out) >= step or self._ended(), f"step {step}")
        if self._ended():
            raise self._unexpected("a host ended before the fault")

    def _ended(self) -> bool:
        return any(launcher.poll() is not None for launcher in self.launchers.values())

    def finish(self) -> None:
        """Wait for all hosts to end well."""
        codes = [self.code(host) for host in self.place]
        if any(codes):
            raise self._unexpected(f"exit codes {codes}")

    def fail(self, which: Iterable[Host]) -> None:
        """Wait for hosts to end, each with one line that names what was saved, and not with 0."""
        for host in which:
            code, told = self.code(host), self.log(host).read_text()
            lines = [line for line in told.splitlines() if line.startswith("error")]
            saved = f"another rank was lost .* at step {elastic.newest_step(self.out)};"
            if code == 0 or len(lines) != 1 or not re.search(saved, lines[0]):
                raise self._unexpected(f"host {host.number} ended with {code}, saying {lines}")

    def code(self, host: Host) -> int:
        """How torchrun on a host ends."""
        try:
            return self.launchers[host].wait(LIMIT)
        except subprocess.TimeoutExpired as error:
            raise self._unexpected(f"host {host.number} still runs after {LIMIT:.0f} s") from error

    def _unexpected(self, what: str) -> Unexpected:
        """The error to raise, once everything that was said is shown."""
        for log in map(self.log, self.launchers):
            print(f"{log.name}:\n{log.read_text()}", file=sys.stderr, flush=True)
        return Unexpected(what)


def worker_killed(job: Job, victim: Host) -> None:
    """SIGKILL to a rank; torchrun starts all again."""
    (worker,) = job.workers(victim)
    os.kill(worker, signal.SIGKILL)


def host_joins_again(job: Job, victim: Host) -> None:
    """A host dies, and its torchrun is started again while the others wait for it."""
    victim.kill_all()
    job.start(victim)


def all_start_again(job: Job, victim: Host) -> None:
    """The host where all meet dies: the others end, and all are started again by the same command."""
    victim.kill_all()
    codes = [job.code(host) for host in job.place]
    if not all(codes):
        raise Unexpected("a host finished without the one that died")
    job.start(*job.place)


def link_flickers(job: Job, victim: Host) -> None:
    """A link is cut for less than a host may be silent: nobody ends, and training goes on."""
    before, step = job.workers(*job.place), elastic.newest_step(job.out)
    victim.cut()
    time.sleep(FLICKER)
    victim.restore()
    job.reach(step + 21)  # some checkpoints later, so after the cut
    if job.workers(*job.place) != before:
        raise Unexpected("a cut that was shorter than the time-out ended a rank")


def link_returns_late(job: Job, victim: Host) -> None:
    """A link is cut until every rank has given up; once it is back, torchrun starts all again."""
    workers = job.workers(*job.place)
    victim.cut()
    until(lambda: not any(map(alive, workers)), "the ranks' end after a cut")
    victim.restore()


def link_is_gone(job: Job, victim: Host) -> None:
    """A link is cut for good: every rank gives up with one line, and the others continue without that host."""
    workers, rest = job.workers(victim), [host for host in job.place if host is not victim]
    victim.cut()
    job.fail(rest)
    until(lambda: not any(map(alive, workers)), "the end of the rank that was cut off")
    victim.kill_all()  # its torchrun may still try to reach the others
    job.place = rest
    job.resume()


Fault = Callable[[Job, Host], None]
KINDS: dict[Fault, int] = {  # the number of the host that suffers it; -1: the last
    worker_killed: -1,
    host_joins_again: -1,
    link_flickers: -1,
    link_returns_late: -1,
    link_is_gone: -1,
    all_start_again: 0,
}


def measure(*, quick: bool, seed: int = 0) -> dict[str, int]:
    """How many faults were made, and how many of the runs ended as if there had been none."""
    if (reason := unavailable()) is not None:
        raise RuntimeError(reason)
    draw = random.Random(seed)
    plan = [(2, worker_killed)] if quick else [(count, fault) for count in (2, 3) for fault in KINDS]
    with tempfile.TemporaryDirectory() as folder:
        elastic.write_features(Path(folder) / "features.npz")
        survived = [
            one_fault(Path(folder), count, fault, draw.randrange(14, elastic.STEPS // 2))
            for count, fault in plan
        ]
    return {"host_faults": len(survived), "host_faults_identical": sum(survived)}


def one_fault(folder: Path, count: int, fault: Fault, step: int) -> bool:
    """Make a fault after a step; whether the run ended as if there had been none."""
    begun, problem = time.monotonic(), ""
    out = folder / f"{fault.__name__}-{count}"
    try:
        expected = undisturbed(folder, count)
        with hosts(count) as place:
            restarts = 0 if fault is link_is_gone else 3
            job = Job(place, out, restarts).start(*place)
            job.reach(step)
            fault(job, place[KINDS[fault]])
            continued_by, saved = len(job.place), elastic.newest_step(out)
            job.finish()
        if continued_by < count:
            expected = continued(expected, saved, continued_by)
        problem = difference(out, expected)
    except Unexpected as error:
        problem = str(error)
    seconds = round(time.monotonic() - begun, 1)
    told = {"fault": fault.__name__, "hosts": count, "step": step, "seconds": seconds, "problem": problem}
    print(json.dumps(told), file=sys.stderr, flush=True)
    return not problem


def undisturbed(folder: Path, count: int) -> Path:
    """The folder of a run on so many hosts, made once, with all its checkpoints."""
    out = folder / f"undisturbed-{count}"
    if not out.exists():
        with hosts(count) as place:
            Job(place, out, keep=ALL).start(*place).finish()
    return out


def continued(whole: Path, step: int, count: int) -> Path:
    """An undisturbed run as it was at a step, continued from there by so many hosts."""
    out = rewound(whole, step)
    with hosts(count) as place:
        Job(place, out).resume().finish()
    return out


def rewound(whole: Path, step: int) -> Path:
    """A copy of a finished run with nothing that is younger than a checkpoint."""
    out = whole.with_name(f"{whole.name}-from-{step}")
    shutil.copytree(whole, out)
    for path in out.glob("checkpoints/step-*"):
        if int(path.name[5:]) > step:
            shutil.rmtree(path)
    for name in ("summary.json", "model.safetensors", "model.json"):
        (out / name).unlink()
    shutil.rmtree(out / "labels")
    return out


def difference(out: Path, expected: Path) -> str:
    """The first file that is not as it should be, or nothing."""
    names = {path.name for folder in (out, expected) for path in folder.glob("labels/*")}
    for name in ("model.safetensors", *sorted(f"labels/{name}" for name in names)):
        one, other = out / name, expected / name
        if not (one.exists() and other.exists() and unsealed(one) == unsealed(other)):
            return f"{name} differs from that of {expected.name}"
    return "" if metrics(out) == metrics(expected) else f"metrics differ from those of {expected.name}"


def metrics(out: Path) -> list[dict[str, object]]:
    """The lines of a run, without the seconds they took."""
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name != "seconds"} for line in lines]


def until(happened: Callable[[], bool], what: str) -> None:
    """Wait for something to happen."""
    begun = time.monotonic()
    while not happened():
        if time.monotonic() - begun > LIMIT:
            raise Unexpected(f"waited in vain for {what}")
        time.sleep(0.01)


def alive(process: int) -> bool:
    """Whether a process still runs; what only waits to be noticed by its parent does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def _each(flag: str, values: Iterable[str]) -> list[str]:
    return [word for value in values for word in (flag, value)]


def main() -> None:
    """Make the faults, print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print(json.dumps({"figures": measure(quick=arguments.quick, seed=arguments.seed)}))


if __name__ == "__main__":
    main()
