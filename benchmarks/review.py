"""A review of a million rows: how long a decision takes, and what the server needs for it.

    python benchmarks/review.py [--rows 1000000] [--decisions 1500] [--classes 100] [--json]

A run of that many rows, all of them doubtful, is written as ``pencil train`` leaves it, and ``pencil review``
started on it in a process of its own. A decision is one HTTP request over loopback: it is synced to disk, and the
next item read, leased and answered. ``decision_p95_ms``: of decisions one after another by one person;
``two_people_p95_ms``: of two people at once; ``undo_p95_ms`` of undos. ``raw_commit_p95_ms``: a bare synced SQLite
commit of one row in the same folder, what no review on this disk can beat. ``decision_processor_ms``: processor time
of the server for a decision, on average; other work on the machine changes it little. ``server_peak_mb`` counts the
interpreter, torch and the queue; ``empty_server_peak_mb`` the same for a run of 100 rows.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import torch
from common import finish

from pencil.algorithm.top_rows import cut
from pencil.config import RunConfig
from pencil.estimates import Interval
from pencil.presets import preset
from pencil.results import POSTERIOR, Estimates, ModelCard, save_labels, save_model, write_estimates
from pencil.results.saved import LABELS
from pencil.run import RunDirectory
from pencil.stores import GivenLabels, TopStore

FEW = 100
STORE = "top:8"


def main() -> None:
    """Make the runs, measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--decisions", type=int, default=1500)
    parser.add_argument("--folder", type=Path, help="where files go")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder, prefix="review-") as folder:
        figures = measure(Path(folder), arguments.rows, arguments.classes, arguments.decisions)
    finish(figures, as_json=arguments.json)


def measure(folder: Path, rows: int, classes: int, decisions: int) -> dict[str, float]:
    """Everything, on a run of its own."""
    small = Server(make_run(folder / "small", FEW, classes))
    empty_peak = small.end()
    server = Server(make_run(folder / "large", rows, classes))
    assert server.total == rows, f"{server.total} of {rows} rows are queued"
    person = Person(server, "one")
    person.decide(20)
    before = server.processor_seconds()
    alone = person.decide(decisions)
    used = (server.processor_seconds() - before) / decisions
    undone = person.undo(decisions // 10)
    pair = together([Person(server, "two"), Person(server, "three")], decisions // 2)
    figures = {
        "rows": rows,
        "queue_seconds": round(server.seconds, 2),
        "decisions": len(alone),
        "decision_median_ms": round(1000 * statistics.median(alone), 2),
        "decision_p95_ms": p95(alone),
        "decision_processor_ms": round(1000 * used, 2),
        "undo_p95_ms": p95(undone),
        "two_people_p95_ms": p95(pair),
        "raw_commit_p95_ms": p95(raw_commits(folder, decisions)),
        "server_peak_mb": server.end(),
        "empty_server_peak_mb": empty_peak,
        "database_mb": round(sum(file.stat().st_size for file in server.run.glob("review.sqlite*")) / 1e6, 1),
    }
    started = Server(server.run)
    figures["restart_seconds"] = round(started.seconds, 2)
    started.end()
    return figures


def make_run(folder: Path, rows: int, classes: int) -> Path:
    """A finished run whose label rows are all doubtful, cut to their 8 largest entries."""
    table = preset("features", "points.npz").table()
    directory = RunDirectory.create(folder, RunConfig.of(table | {"store": STORE}))
    stores = {LABELS: TopStore(rows, classes, 8), POSTERIOR: TopStore(rows, classes, 8)}
    generator = torch.Generator().manual_seed(0)
    for part in torch.arange(rows).split(1 << 16):
        logits = cut(torch.randn(len(part), classes, generator=generator), 8)
        stores[LABELS].scatter(part, logits)
        stores[POSTERIOR].scatter(part, logits.softmax())
    given = GivenLabels.of(torch.randint(classes, (rows,), generator=generator), classes)
    ids = [f"train/{row:07}.jpg" for row in range(rows)]
    for name, store in stores.items():
        save_labels(directory.path, torch.arange(rows), given, store.state(), ids, name=name)
    write_estimates(directory.path, estimates(classes))
    names = tuple(f"class {number}" for number in range(classes))
    save_model(directory.path, {}, ModelCard(name="linear", args={}, input_shape=(8,), class_names=names))
    directory.write_summary({"examples": rows})
    return directory.path


def estimates(classes: int) -> Estimates:
    """Estimates of labels that are all doubtful."""
    doubtful, share = Interval(0.9, 0.8, 1.0), [(0.9, 0.8, 1.0)] * classes
    return Estimates(doubtful, doubtful, share, share, [], [], "inputs", STORE)


class Server:
    """``pencil review`` on a run, from its start to its first word in ``seconds``."""

    def __init__(self, run: Path) -> None:
        begun = time.perf_counter()
        self.run = run
        command = [sys.executable, "-m", "pencil", "review", str(run), "--port", "0", "--json"]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        told = json.loads(self._process.stdout.readline())
        self.seconds = time.perf_counter() - begun
        self.token, self.total = told["token"], told["total"]
        self.port = int(told["url"].rpartition("/")[0].rpartition(":")[2])

    def processor_seconds(self) -> float:
        """Processor time that it has used."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # in user and in kernel mode

    def end(self) -> float:
        """End it; returns the most memory it ever held, in MB."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        (peak,) = [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")]
        self._process.send_signal(signal.SIGINT)
        self._process.communicate()
        return round(peak / 1000, 1)


class Person:
    """Somebody who decides as fast as the server answers."""

    def __init__(self, server: Server, name: str) -> None:
        self._web = http.client.HTTPConnection("127.0.0.1", server.port)
        self._headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
        self._name, self._count = name, 0
        self._item = self._ask("/api/next", {"client": name})["items"][0]

    def decide(self, count: int) -> list[float]:
        """Seconds of each decision."""
        return [self._timed("/api/decide", self._decision(number)) for number in range(count)]

    def undo(self, count: int) -> list[float]:
        """Seconds of each undo."""
        return [self._timed("/api/undo", self._signed()) for _ in range(count)]

    def _decision(self, number: int) -> dict[str, Any]:
        item, action = self._item, ("accept", "keep", "drop", "choose")[number % 4]
        seen = [{"row": item["row"], "version": item["version"]}]
        return {**self._signed(), "items": seen, "action": action, "label": 7 if action == "choose" else None}

    def _signed(self) -> dict[str, Any]:
        self._count += 1
        return {"client": self._name, "reviewer": self._name, "ticket": f"{self._name} {self._count}"}

    def _timed(self, path: str, body: dict[str, Any]) -> float:
        begun = time.perf_counter()
        answer = self._ask(path, body)
        seconds = time.perf_counter() - begun
        self._item = answer["items"][0]
        return seconds

    def _ask(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self._web.request("POST", path, json.dumps(body), self._headers)
        answer = self._web.getresponse()
        content: dict[str, Any] = json.loads(answer.read())
        assert answer.status == 200, content
        return content


def together(people: list[Person], count: int) -> list[float]:
    """Seconds of each decision of people who decide at the same time."""
    taken: list[float] = []
    workers = [threading.Thread(target=lambda one=one: taken.extend(one.decide(count))) for one in people]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return taken


def raw_commits(folder: Path, count: int) -> list[float]:
    """Seconds of bare commits, synced as the review's are."""
    taken = []
    with closing(sqlite3.connect(folder / "bare.sqlite", isolation_level=None)) as bare:
        bare.execute("PRAGMA journal_mode = WAL")
        bare.execute("PRAGMA synchronous = FULL")
        bare.execute("CREATE TABLE entries (entry INTEGER PRIMARY KEY, text TEXT)")
        for number in range(count):
            begun = time.perf_counter()
            bare.execute("INSERT INTO entries (text) VALUES (?)", (f"entry {number}",))
            taken.append(time.perf_counter() - begun)
    return taken


def p95(seconds: list[float]) -> float:
    """Milliseconds that 95 % stay under."""
    return round(1000 * statistics.quantiles(seconds, n=20)[-1], 2)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
