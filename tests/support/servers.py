"""Servers on loopback: files handed out well or badly, and ``pencil review`` in a thread or a process."""

import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import torch

from pencil.data import Examples, TensorInputs, Text
from pencil.run import RunDirectory
from pencil.stores import GivenLabels


class BadFiles(SimpleHTTPRequestHandler):
    """Hands out files of a folder; the server's ``mood`` spoils what it hands out."""

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.server.asked.append(self.path)
        mood = self.server.mood
        if mood.get("redirect"):
            self.send_response(302)
            self.send_header("Location", mood["redirect"])
            self.end_headers()
        elif mood.get("fail", 0):
            mood["fail"] -= 1
            self.send_error(503)
        elif mood.get("cut", 0):
            mood["cut"] -= 1
            content = (Path(self.directory) / self.path.lstrip("/")).read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: len(content) // 2])
            self.close_connection = True
        else:
            super().do_GET()


@contextlib.contextmanager
def serving_badly(folder: Path):
    """A server for a folder: its ``url``, what it was ``asked`` for, and its ``mood``."""
    handler = functools.partial(BadFiles, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.asked, server.mood = [], {}
        server.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class ServerHere:
    """The review's server in a thread of this process, for what needs no process."""

    def __init__(self, run: Path, *, limits=None, **options) -> None:
        from pencil.review import Review
        from pencil.review.access import new_token
        from pencil.review.connection import LIMITS
        from pencil.review.server import build_app, listen, make_server

        limits = limits or LIMITS
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
    """``pencil review``, or another command that serves its page, in a process of its own."""

    def __init__(self, run: Path, *words: str, command: str = "review") -> None:
        command = [sys.executable, "-m", "pencil", command, str(run), "--json", *words]
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


class Notes(TensorInputs):
    """Numbers that are made of texts, which are not to be trusted."""

    def shown(self, index):
        return Text(f"<img src=x onerror=alert(1)> note {index}")


def show_texts(review, rows: int) -> None:
    """Let a review show its rows as texts."""
    from pencil.review.pictures import Pictures

    ids = [review.labels(row).id for row in range(rows)]
    labels = GivenLabels.of(torch.arange(rows) % 2, 2)
    review._pictures = Pictures(Examples(Notes(torch.zeros(rows, 1)), labels, ("a", "b"), ids))
