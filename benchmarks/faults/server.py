"""The review server under requests that no browser sends: how many answers are 5xx, late, or missing.

``pencil train`` makes a small run of images, and ``pencil review`` serves it in a process of its own on loopback. Four
clients send seeded mutations over connections that stay open: of the JSON bodies of every route and method in the
application's own table, of paths and headers, and of HTTP itself. An answer of 500 or more counts as a failure, and so
does a connection that ends, or stays silent, where an answer was due. At the end the server must still answer, hold
little more memory than before, and keep a history in which every decision that was answered stands.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np

from faults.server_requests import Requests, Sent, routes_of
from pencil.cli.main import cli
from pencil.review.server import build_app

REQUESTS, QUICK_REQUESTS = 100_000, 2_000
CLIENTS = 4
ROWS = 2_000
MOST_GROWTH_MB = 64.0
PATIENCE = 60.0  # seconds for one answer: the machine may be busy


def measure(*, quick: bool) -> dict[str, int]:
    """How many requests were sent, and how many of them had a 5xx or no answer."""
    with tempfile.TemporaryDirectory(prefix="server-") as folder, serving(trained(Path(folder))) as server:
        clients = [Client(server, number) for number in range(CLIENTS)]
        together(clients, (QUICK_REQUESTS // 10) // CLIENTS)  # what the server takes once
        before, begun = server.memory_mb(), time.perf_counter()
        total = QUICK_REQUESTS if quick else REQUESTS
        together(clients, total // CLIENTS - clients[0].requests.count)
        seconds, growth = time.perf_counter() - begun, server.memory_mb() - before
        statuses = sum((client.statuses for client in clients), Counter[int | None]())
        tell(statuses, seconds, growth, [each for client in clients for each in client.failures])
        check(server, clients, growth)
    failed = sum(count for status, count in statuses.items() if status is None or status >= 500)
    return {"server_requests": statuses.total(), "server_5xx": failed}


def trained(folder: Path) -> Path:
    """A run on small images that are mostly noise, so that most rows are doubtful."""
    rng = np.random.default_rng(0)
    for part, content in {
        "images-idx3": rng.integers(256, size=(ROWS, 28, 28)),
        "labels-idx1": rng.integers(4, size=ROWS),
    }.items():
        head = bytes([0, 0, 8, content.ndim]) + np.array(content.shape, ">u4").tobytes()
        (folder / f"train-{part}-ubyte").write_bytes(head + content.astype("u1").tobytes())
    words = [
        "--preset",
        "idx",
        "--epochs",
        "1,2,0",
        "--set",
        "model.name=linear",
        "--set",
        "data.validation=0",
        "--set",
        "plan=fixed",
        "--quiet",
    ]
    with contextlib.redirect_stdout(sys.stderr):
        cli(["train", str(folder), *words, "--out", str(folder / "run")], standalone_mode=False)
    return folder / "run"


class Server:
    """``pencil review`` on a run."""

    def __init__(self, run: Path) -> None:
        self.run = run
        command = [sys.executable, "-m", "pencil", "review", str(run), "--port", "0", "--json", "--all"]
        self.said = (run.parent / "stderr").open("w+")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.said, text=True)
        assert self.process.stdout is not None
        told = json.loads(self.process.stdout.readline())
        self.token, self.rows = told["token"], told["total"]
        self.port = int(told["url"].partition("#")[0].rstrip("/").rpartition(":")[2])

    def memory_mb(self) -> float:
        """What it holds now."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return next(int(line.split()[1]) / 1000 for line in status.splitlines() if line.startswith("VmRSS"))

    def end(self) -> str:
        """End it in order; returns what it said."""
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=60)
        self.said.seek(0)
        return self.said.read()


@contextlib.contextmanager
def serving(run: Path) -> Iterator[Server]:
    """A server, and none afterwards."""
    server = Server(run)
    try:
        yield server
    finally:
        server.process.kill()
        server.process.communicate()
        server.said.close()


class Client:
    """One of those who send; keeps what was answered."""

    def __init__(self, server: Server, number: int) -> None:
        self._port = server.port
        routes = routes_of(application())
        self.requests = Requests(routes, server.token, server.rows, f"client {number}")
        self.statuses: Counter[int | None] = Counter()
        self.failures: list[tuple[int | None, bytes]] = []
        self.entries: dict[int, str] = {}
        self._line: Line | None = None

    def send(self, count: int) -> None:
        """Send so many requests and read their answers."""
        for _ in range(count):
            sent = self.requests.next()
            status, body = self.answer(sent)
            self.statuses[status] += 1
            if status is None or status >= 500:
                self.failures.append((status, sent.data))
            elif status == 200 and sent.decision is not None:
                told = json.loads(body)
                for made in told.get("made") or told.get("undone"):
                    self.entries[made["entry"]] = made["action"]
        self.hang_up()

    def answer(self, sent: Sent) -> tuple[int | None, bytes]:
        """The answer; on a new connection where one that was used before had ended."""
        if sent.alone:
            self.hang_up()
        for attempt in range(2):
            fresh = self._line is None
            try:
                self._line = self._line or Line(self._port)
            except OSError:
                break  # refused
            answer = self._line.ask(sent)
            if answer is None or self._line.ended or sent.alone:
                self.hang_up()
            if answer is not None:
                return answer
            if fresh or attempt:
                break
        return None, b""

    def hang_up(self) -> None:
        """Leave the connection, if there is one."""
        if self._line is not None:
            self._line.socket.close()
            self._line = None


def application() -> Any:
    """The application behind the checks; its routes can be listed without a review."""
    guarded: Any = build_app(cast(Any, None), "", "localhost", "")
    return guarded.app


class Line:
    """A connection; ``ended`` once the server said that it would close it."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.ended = False
        self._kept = b""

    def ask(self, sent: Sent) -> tuple[int, bytes] | None:
        """Status and body; None where the connection ended or nothing came."""
        with contextlib.suppress(
            BrokenPipeError, ConnectionResetError
        ):  # an answer may have come before all was sent
            self.socket.sendall(sent.data)
        try:
            return self._read(sent.method)
        except (OSError, EOFError):
            return None

    def _read(self, method: str) -> tuple[int, bytes]:
        while b"\r\n\r\n" not in self._kept:
            self._more()
        head, _, self._kept = self._kept.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").lower().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        self.ended = headers.get("connection") == "close" or "content-length" not in headers
        length = 0 if method == "HEAD" else int(headers.get("content-length", 0))
        while len(self._kept) < length:
            self._more()
        body, self._kept = self._kept[:length], self._kept[length:]
        return int(first.split()[1]), body

    def _more(self) -> None:
        came = self.socket.recv(1 << 16)
        if not came:
            raise EOFError
        self._kept += came


def together(clients: list[Client], count: int) -> None:
    """Let all send at once."""
    workers = [threading.Thread(target=client.send, args=(count,)) for client in clients]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def tell(
    statuses: Counter[int | None], seconds: float, growth: float, failures: list[tuple[int | None, bytes]]
) -> None:
    """What happened, for people."""
    shares = ", ".join(f"{count} × {status}" for status, count in statuses.most_common())
    print(f"server: {shares}; {seconds:.0f} s; memory {growth:+.1f} MB", file=sys.stderr)
    for status, data in failures[:10]:
        print(f"server: {status} for {data[:400]!r}", file=sys.stderr)


def check(server: Server, clients: list[Client], growth: float) -> None:
    """The server answers, has not grown, said nothing, and its history holds what was answered."""
    status, body = clients[0].answer(clients[0].requests.sent("GET", "/api/recent"))
    clients[0].hang_up()
    assert status == 200, f"after all requests the server answers {status}: {body[:200]!r}"
    assert growth < MOST_GROWTH_MB, f"the server grew by {growth:.1f} MB"
    said = server.end()
    assert "Traceback" not in said, said[-2000:]
    with contextlib.closing(sqlite3.connect(server.run / "review.sqlite")) as history:
        assert history.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        kept = dict(history.execute("SELECT entry, action FROM history").fetchall())
    answered = {entry: action for client in clients for entry, action in client.entries.items()}
    assert answered, "not one decision was entered"
    assert answered.items() <= kept.items(), "decisions that were answered are lost"


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    print(json.dumps(measure(quick="--quick" in sys.argv)))
