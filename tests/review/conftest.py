"""A finished run of given beliefs, made without training; and the real server on loopback."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from pencil.config import RunConfig
from pencil.presets import preset
from pencil.results import ModelCard, save_labels, save_model
from pencil.review import Review
from pencil.review.access import new_token
from pencil.review.connection import LIMITS
from pencil.review.pictures import encode_png
from pencil.review.server import build_app, listen, make_server
from pencil.run import RunDirectory
from pencil.stores import GivenLabels


def _beliefs(labels, classes, seed=0):
    """Label logits (N, C) of every degree of doubt; every fifth given label is surely right."""
    generator = torch.Generator().manual_seed(seed)
    scale = 8 * torch.rand(len(labels), 1, generator=generator)
    logits = scale * torch.rand(len(labels), classes, generator=generator)
    logits[range(0, len(labels), 5), labels[::5]] += 12
    return logits


def _make_run(
    folder: Path,
    rows=60,
    classes=4,
    *,
    images=True,
    kept=None,
    store="dense",
    trusted=None,
    names=None,
    ids=None,
) -> Path:
    """A run directory as ``pencil train`` leaves it, its label rows as asked for."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    labels = rng.integers(classes, size=rows)
    names = names or [f"class {number}" for number in range(classes)]
    ids = ids or [f"row {number}" for number in range(rows)]
    if images:
        table = preset("folder", str(folder)).table()
        table["data"] = {"kind": "manifest", "path": str(_write_images(folder, ids, labels, names))}
    else:
        values = rng.normal(size=(rows, 5)).astype(np.float32)
        np.savez(folder / "points.npz", X=values, y=labels, names=np.array(names), ids=np.array(ids))
        table = preset("features", str(folder / "points.npz")).table()
    table["store"] = store
    run = RunDirectory.create(folder / "run", RunConfig.of(table))
    given = GivenLabels.of(torch.from_numpy(labels), classes, trusted)
    save_labels(run.path, torch.arange(rows), given, kept or {"values": _beliefs(labels, classes)}, ids)
    card = ModelCard(name="linear", args={}, input_shape=(5,), class_names=tuple(names))
    save_model(run.path, {"weight": torch.zeros(1)}, card)
    run.write_summary({"examples": rows})
    return run.path


def _write_images(folder: Path, ids, labels, names) -> Path:
    """Small images named by their ids, and a manifest of them."""
    generator = torch.Generator().manual_seed(0)
    lines = ["path,label"]
    for name, label in zip(ids, labels, strict=True):
        pixels = torch.randint(256, (3, 8, 8), generator=generator, dtype=torch.uint8)
        (folder / name).write_bytes(encode_png(pixels))
        lines.append(f"{name},{names[label]}")
    (folder / "images.csv").write_text("\n".join(lines) + "\n")
    return folder / "images.csv"


class ServerHere:
    """The same server in a thread of this process, for what needs no process."""

    def __init__(self, run: Path, *, limits=LIMITS, **options) -> None:
        self.review = Review(RunDirectory.open(run), **options)
        listening = listen("127.0.0.1", 0)
        self.port, self.token = listening.getsockname()[1], new_token()
        self.base = f"http://127.0.0.1:{self.port}"
        app = build_app(self.review, self.token, "127.0.0.1", "somebody", limits)
        self._server = make_server(app, limits)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [listening]})
        self._thread.start()

    @property
    def connections(self) -> int:
        return len(self._server.server_state.connections)

    def end(self) -> None:
        self._server.should_exit = True
        self._thread.join()
        self.review.close()


class Server:
    """``pencil review`` in a process of its own."""

    def __init__(self, run: Path, *words: str) -> None:
        command = [sys.executable, "-m", "pencil", "review", str(run), "--json", *words]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            command,
            cwd=run.parent,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        self.told = json.loads(line)
        self.url, self.token = self.told["url"], self.told["token"]
        self.base = self.url.partition("#")[0].rstrip("/")
        self.port = int(self.base.rpartition(":")[2])

    def end(self, number: int = signal.SIGKILL) -> tuple[int, str]:
        """Exit code and what it said last."""
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=30)
        return self.process.returncode, said

    def clear(self) -> None:
        """Gone, whatever became of it."""
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()


@pytest.fixture(scope="session")
def make_run():
    return _make_run


@pytest.fixture(scope="session")
def server_here():
    return ServerHere


@pytest.fixture
def serve_here():
    """Starts servers in threads, and ends them."""
    with contextlib.ExitStack() as started:

        def start(run, **options):
            server = ServerHere(run, **options)
            started.callback(server.end)
            return server

        yield start


@pytest.fixture
def serve():
    """Starts servers, and ends those that are left."""
    with contextlib.ExitStack() as started:

        def start(run, *words):
            server = Server(run, *words)
            started.callback(server.clear)
            return server

        yield start
