"""Runs to review, and the real server on loopback."""

import contextlib

import pytest

from support import browser as browsers
from support import runs, servers


@pytest.fixture(scope="session")
def make_run():
    return runs.run_to_review


@pytest.fixture(scope="session")
def server_here():
    return servers.ServerHere


@pytest.fixture
def serve_here():
    """Starts servers in threads, and ends them."""
    with contextlib.ExitStack() as started:

        def start(run, **options):
            server = servers.ServerHere(run, **options)
            started.callback(server.end)
            return server

        yield start


@pytest.fixture
def serve():
    """Starts servers, and ends those that are left."""
    with contextlib.ExitStack() as started:

        def start(run, *words):
            server = servers.Server(run, *words)
            started.callback(server.clear)
            return server

        yield start


@pytest.fixture
def browser():
    opened = browsers.chromium()
    opened.set_script_timeout(30)
    yield opened
    opened.quit()
