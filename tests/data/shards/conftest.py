"""Small shards, and servers on loopback that hand them out well or badly."""

import contextlib

import pytest

from support import files, servers


@pytest.fixture
def serve(monkeypatch):
    """Starts servers for folders; their address is allowed."""
    with contextlib.ExitStack() as started:

        def start(folder):
            server = started.enter_context(servers.serving_badly(folder))
            monkeypatch.setenv("PENCIL_ALLOW", server.url)
            return server

        yield start


@pytest.fixture
def quick_retries(monkeypatch):
    monkeypatch.setattr("pencil.data.shards.remote.PAUSES", (0.01, 0.01))


@pytest.fixture(scope="session")
def png():
    return files.png


@pytest.fixture(scope="session")
def npy():
    return files.npy


@pytest.fixture(scope="session")
def tar():
    return files.tar


@pytest.fixture(scope="session")
def image_shards():
    return files.image_shards
