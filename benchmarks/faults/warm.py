"""A process that has imported everything once and forks a fresh one for each job: importing torch takes seconds.

    python -m faults.warm

Reads a JSON line for each order and answers each with one: ``start`` a function, ``wait`` for its process.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

PRELOAD = (
    "torch._dynamo",  # which optimisers import on their first step
    "torch.distributed.checkpoint.filesystem",
    "torch.distributed.checkpoint.state_dict_loader",
    "torch.distributed.checkpoint.state_dict_saver",
    "torch.nn.parallel.distributed",
    "torch.utils.serialization",
    "matplotlib.backends.backend_agg",
    "pencil.bench.runner",
    "pencil.cli.main",
    "pencil.report.page",
    "pencil.review.review",
    "pencil.run",
)
BENCHMARKS = Path(__file__).parents[1]
DEADLINE = 300.0  # seconds for one job
TRACER_SECONDS = 60.0


class Job:
    """A process that carries out one function."""

    def __init__(self, server: Warm, pid: int, answer: Path) -> None:
        self.pid, self._server, self._answer = pid, server, answer
        self._code: int | None = None

    def kill(self) -> None:
        """SIGKILL, now; nothing where it has ended."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, 9)

    def wait(self, limit: float = DEADLINE) -> int:
        """Its exit code, negative for the signal that ended it; it is killed after so many seconds."""
        if self._code is None:
            self._code = int(self._server.ask({"wait": self.pid, "limit": limit})["code"])
        return self._code

    def result(self) -> Any:
        """What the function returned."""
        code = self.wait()
        told = json.loads(self._answer.read_text()) if self._answer.exists() else {}
        if "value" not in told:
            raise RuntimeError(f"the job ended with code {code}: {told.get('error', 'no answer')}")
        return told["value"]


class Warm:
    """The parent's side."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._count = folder, 0
        path = [str(BENCHMARKS), os.environ.get("PYTHONPATH", "")]
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join(filter(None, path)),
        }
        command = [sys.executable, "-m", "faults.warm"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
        )

    def start(
        self, function: str, *values: Any, environment: dict[str, str] | None = None, traced: bool = False
    ) -> Job:
        """Begin ``module:function`` with plain values; ``traced``: it waits until somebody traces it."""
        self._count += 1
        answer = self._folder / f"answer-{self._count}.json"
        order = {
            "start": function,
            "values": values,
            "answer": str(answer),
            "environment": environment or {},
            "traced": traced,
        }
        return Job(self, self.ask(order)["pid"], answer)

    def call(self, function: str, *values: Any) -> Any:
        """What ``module:function`` returns for plain values."""
        return self.start(function, *values).result()

    def ask(self, order: dict[str, Any]) -> dict[str, Any]:
        """One order, one answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        """End it."""
        self._process.communicate()


@contextlib.contextmanager
def warm() -> Iterator[tuple[Warm, Path]]:
    """A server and a folder for everything, in memory where there is a place for it, gone afterwards."""
    memory = Path("/dev/shm")  # noqa: S108 - a folder of our own is made there
    with tempfile.TemporaryDirectory(
        prefix="pencil-faults-", dir=memory if memory.is_dir() else None
    ) as place:
        folder = Path(place).resolve()
        server = Warm(folder)
        try:
            server.call("os:getpid")  # it has imported everything now
            yield server, folder
        finally:
            server.close()


def serve() -> None:
    """Carry out orders until nobody gives any."""
    for name in PRELOAD:
        with contextlib.suppress(ModuleNotFoundError):  # of an optional package
            importlib.import_module(name)
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what jobs print is not an answer
    for line in iter(sys.stdin.readline, ""):
        order = json.loads(line)
        answer = {"pid": _fork(order)} if "start" in order else {"code": _code(order["wait"], order["limit"])}
        channel.write(json.dumps(answer) + "\n")
        channel.flush()


def _fork(order: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        told: dict[str, Any] = {"value": _carry_out(order)}
    except BaseException as error:
        told = {"error": "".join(traceback.format_exception(error))}
    Path(order["answer"]).write_text(json.dumps(told))
    os._exit("error" in told)


def _carry_out(order: dict[str, Any]) -> Any:
    os.environ |= order["environment"]
    if order["traced"]:
        _wait_for_tracer()
    module, _, name = order["start"].partition(":")
    values: Sequence[Any] = order["values"]
    return getattr(importlib.import_module(module), name)(*values)


def _wait_for_tracer() -> None:
    deadline = time.monotonic() + TRACER_SECONDS
    while "TracerPid:\t0\n" in Path("/proc/self/status").read_text():
        if time.monotonic() > deadline:
            raise RuntimeError("nobody traces this process: strace is missing, or not allowed to")
        time.sleep(0.001)
    time.sleep(0.05)  # the tracer is named a moment before it listens


def _code(pid: int, limit: float) -> int:
    deadline = time.monotonic() + limit
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.kill(pid, 9)
        time.sleep(0.002)


if __name__ == "__main__":
    serve()
