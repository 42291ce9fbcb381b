"""Processes that carry out runs, one thread each, started anew where one dies, and gone when their parent is."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import threading
import traceback
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch

from pencil.bench.measure import carry_out
from pencil.config import RunConfig
from pencil.engine.signals import StopRequest
from pencil.errors import PencilError
from pencil.reading import parse_json

LOOK_SECONDS = 0.5  # how often to look for a request to stop
STOP_SECONDS = 60.0  # for the last step and its checkpoint


@dataclass(frozen=True)
class Job:
    """A run to carry out: its settings as plain values, and its folder."""

    settings: dict[str, Any]
    folder: str
    keep: bool = False


@dataclass(frozen=True)
class Result:
    """The result of a job: its measures, or the error that ended it."""

    measures: dict[str, Any] | None = None
    error: str | None = None
    trace: str | None = None


def carry_out_all(jobs: Sequence[Job], workers: int) -> Iterator[tuple[Job, Result]]:
    """Every job with its result, in the order they end. SIGINT and SIGTERM end it early, with runs saved."""
    waiting, crew = deque(jobs), list[_Worker]()
    with StopRequest() as stop:
        try:
            while (waiting or crew) and not stop.requested:
                while waiting and len(crew) < workers:
                    crew.append(_Worker(waiting.popleft()))
                ready = wait([worker.connection for worker in crew], LOOK_SECONDS)
                for worker in [worker for worker in crew if worker.connection in ready]:
                    job, result = worker.job, worker.result()
                    if result.error is None or worker.is_alive:
                        _next(worker, waiting, crew)
                    else:
                        crew.remove(worker)
                    yield job, result
        finally:
            for worker in crew:
                worker.ask_to_stop()
            for worker in crew:
                worker.wait()


def _next(worker: _Worker, waiting: deque[Job], crew: list[_Worker]) -> None:
    if waiting:
        worker.give(waiting.popleft())
    else:
        crew.remove(worker)
        worker.dismiss()


class _Worker:
    """The parent's side of a process."""

    def __init__(self, job: Job) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=work, args=(theirs,))
        self._process.start()
        theirs.close()  # so that the end of the process is the end of the line
        self.give(job)

    @property
    def is_alive(self) -> bool:
        return self._process.exitcode is None

    def give(self, job: Job) -> None:
        self.job = job
        with contextlib.suppress(OSError):  # it died meanwhile; reading its result raises
            self.connection.send_bytes(json.dumps(asdict(job)).encode())

    def result(self) -> Result:
        try:
            return Result(**parse_json(self.connection.recv_bytes(), source="a worker"))
        except (EOFError, OSError):
            self._process.join()
            return Result(error=_death(self._process.exitcode))

    def dismiss(self) -> None:
        self.connection.close()
        self._process.join()

    def ask_to_stop(self) -> None:
        self.connection.close()
        self._process.terminate()

    def wait(self) -> None:
        self._process.join(STOP_SECONDS)
        if self.is_alive:
            self._process.kill()
            self._process.join()


def _death(code: int | None) -> str:
    if code is not None and code < 0:
        cause = f"was killed by {signal.Signals(-code).name}"
    else:
        cause = f"ended with exit code {code}"
    return f"its process {cause}; if memory ran out, use fewer --jobs; run the grid again to continue"


def work(connection: Connection) -> None:
    """The process itself: a job at a time until the line is closed."""
    os.setpgrp()  # so that Ctrl-C reaches the parent only, which asks its workers to stop
    threading.Thread(target=_die_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    while True:
        try:
            job = Job(**parse_json(connection.recv_bytes(), source="a job"))
            connection.send_bytes(json.dumps(asdict(_result(job))).encode())
        except (EOFError, OSError):  # the parent has closed the line
            return


def _result(job: Job) -> Result:
    try:
        return Result(carry_out(RunConfig.of(job.settings), Path(job.folder), keep=job.keep))
    except PencilError as error:
        return Result(error=str(error))
    except Exception as error:  # whatever it is, the other runs go on
        return Result(error=f"{type(error).__name__}: {error}", trace=traceback.format_exc())


def _die_with_parent() -> None:
    """A worker whose parent was killed must not go on in a folder that the next parent gives to another."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
