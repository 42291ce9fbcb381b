"""A short form of the requests that no browser sends, and that what goes wrong is counted."""

import contextlib
import socket
import threading

import pytest

pytestmark = pytest.mark.slow

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")


@pytest.fixture(scope="module")
def faults(imported):
    with imported("faults.server") as module:
        yield module


def test_no_request_of_two_thousand_brings_a_5xx_or_no_answer(faults):
    assert faults.measure(quick=True) == {"server_requests": 2000, "server_5xx": 0}


def test_every_route_and_method_is_in_the_table(faults):
    routes = {(method, path): model for method, path, model in faults.routes_of(faults.application())}
    assert set(routes) == {
        ("GET", "/"),
        ("GET", "/api/start"),
        ("POST", "/api/next"),
        ("POST", "/api/decide"),
        ("POST", "/api/undo"),
        ("GET", "/api/recent"),
        ("GET", "/api/disagreements"),
        ("GET", "/api/image/{row}"),
        ("GET", "/api/thumbnail/{row}"),
        ("GET", "/api/text/{row}"),
        ("GET", "/api/references/{label}"),
    }
    assert {path for (_, path), model in routes.items() if model} == {"/api/next", "/api/decide", "/api/undo"}


def test_the_same_seed_sends_the_same(faults):
    routes = faults.routes_of(faults.application())
    streams = [faults.Requests(routes, "token", 9, seed) for seed in ("a", "a", "b")]
    first, again, other = ([stream.next() for _ in range(300)] for stream in streams)
    assert first == again
    assert first != other


class Failing:
    """A server with a port that answers every connection with the same bytes, then closes it."""

    def __init__(self, answer):
        self.listening, self.answer = socket.create_server(("127.0.0.1", 0)), answer
        self.port, self.token, self.rows = self.listening.getsockname()[1], "token", 9
        self.thread = threading.Thread(target=self.work)
        self.thread.start()

    def work(self):
        while True:
            connection, _ = self.listening.accept()
            with connection, contextlib.suppress(ConnectionError):
                if connection.recv(1 << 20) == b"end":
                    return
                connection.sendall(self.answer)

    def end(self):
        with socket.create_connection(("127.0.0.1", self.port)) as last:
            last.sendall(b"end")
        self.thread.join()
        self.listening.close()


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n", 500),
        (b"HTTP/1.1 503 Oh\r\nConnection: close\r\n\r\n", 503),
        (b"", None),
        (b"HTTP/1.1 200", None),
    ],
    ids=["500", "503", "no answer", "half an answer"],
)
def test_a_failing_server_is_found_out(faults, answer, status):
    server = Failing(answer)
    client = faults.Client(server, 0)
    client.send(20)
    server.end()
    assert client.statuses == {status: 20}
    assert len(client.failures) == 20
