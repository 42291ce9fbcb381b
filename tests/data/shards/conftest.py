"""Small shards, and servers on loopback that hand them out well or badly."""

import contextlib
import io
import tarfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from PIL import Image


def _png(colour=(0, 0, 0), size=4) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (size, size), tuple(colour)).save(buffer, "PNG")
    return buffer.getvalue()


def _npy(values) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, values, allow_pickle=True)
    return buffer.getvalue()


def _tar(path: Path, files) -> Path:
    """A tar of (name, content) in this order."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, content in files:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def _image_shards(folder: Path, shards=4, rows=5, classes=3, text=str) -> Path:
    """Shard s, row r: one colour (s, r, class), class (s + r) modulo their number."""
    for shard in range(shards):
        files = []
        for row in range(rows):
            label = (shard + row) % classes
            key = f"{shard:03d}-{row:03d}"
            files += [(f"{key}.png", _png((shard, row, label))), (f"{key}.cls", text(label).encode())]
        _tar(folder / f"{shard:04d}.tar", files)
    return folder


class _Bad(SimpleHTTPRequestHandler):
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


@pytest.fixture
def serve(monkeypatch):
    """Start a server for a folder: its address, which is allowed, what it was asked for, and its mood."""
    with contextlib.ExitStack() as stack:

        def start(folder: Path):
            server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Bad, directory=str(folder)))
            server.asked, server.mood = [], {}
            server.url = f"http://127.0.0.1:{server.server_port}"
            monkeypatch.setenv("PENCIL_ALLOW", server.url)
            thread = threading.Thread(target=server.serve_forever, args=(0.01,))
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.server_close)
            stack.callback(server.shutdown)
            return server

        yield start


@pytest.fixture
def quick_retries(monkeypatch):
    monkeypatch.setattr("pencil.data.shards.remote.PAUSES", (0.01, 0.01))


@pytest.fixture(scope="session")
def png():
    return _png


@pytest.fixture(scope="session")
def npy():
    return _npy


@pytest.fixture(scope="session")
def tar():
    return _tar


@pytest.fixture(scope="session")
def image_shards():
    return _image_shards
