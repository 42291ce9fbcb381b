"""Sockets that say nothing, little or too slowly, on the real server, with less patience than it has."""

import contextlib
import http.client
import select
import socket
import time

import pytest

from pencil.review.connection import LIMITS, Limits
from pencil.review.server import make_server

pytestmark = pytest.mark.slow

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

PATIENCE = 1.0
HEAD = (
    "POST /api/next HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 40\r\n"
)


@pytest.fixture(scope="module")
def running(make_run, server_here, tmp_path_factory):
    run = make_run(tmp_path_factory.mktemp("bounded"), classes=3000, images=False)
    server = server_here(run, limits=Limits(request_seconds=PATIENCE, connections=99))
    yield server
    server.end()


@pytest.fixture
def connect(running):
    with contextlib.ExitStack() as opened:
        yield lambda: opened.enter_context(socket.create_connection(("127.0.0.1", running.port), timeout=30))


def signed(running, head=HEAD):
    return f"{head}Authorization: Bearer {running.token}\r\n\r\n".encode()


def is_closed(connection):
    """Whether the server hung up within the socket's own, far longer patience."""
    try:
        return connection.recv(1 << 16) == b""
    except ConnectionResetError:
        return True


def status(connection):
    with contextlib.closing(http.client.HTTPResponse(connection)) as answer:
        answer.begin()
        answer.read()
        return answer.status


def wait_until(reached):
    begun = time.monotonic()
    while not reached() and time.monotonic() < begun + 30:
        time.sleep(0.02)
    assert reached()


def test_by_default_a_request_has_twenty_seconds_and_there_is_room_for_two_hundred_people():
    assert LIMITS.request_seconds == 20
    assert 2 * 200 < LIMITS.connections < 1024


def test_between_requests_a_connection_has_as_long_as_for_one():
    assert make_server(None, Limits(request_seconds=7)).config.timeout_keep_alive == 7


@pytest.mark.parametrize("sent", [b"", b"GET", b"GET / HTTP/1.1\r\nHost: loc"])
def test_a_head_that_never_ends_is_hung_up_on(connect, sent):
    connection = connect()
    connection.sendall(sent)
    assert is_closed(connection)


def test_a_body_that_never_ends_is_hung_up_on(running, connect):
    connection = connect()
    connection.sendall(signed(running) + b"{")
    with contextlib.suppress(ConnectionResetError):
        assert connection.recv(1 << 16)[9:12] in (b"408", b"")
    assert is_closed(connection)


@pytest.mark.parametrize("token", [True, False], ids=["with the token", "without"])
def test_drops_now_and_then_do_not_buy_time(running, connect, token):
    connection, begun = connect(), time.monotonic()
    connection.sendall(signed(running) if token else HEAD.encode() + b"\r\n")
    with contextlib.suppress(OSError):
        for _ in range(100):  # of which each comes soon after the one before
            connection.sendall(b" ")
            time.sleep(0.1)
        pytest.fail("100 drops were taken")
    assert time.monotonic() - begun > PATIENCE / 2


def test_a_second_request_that_never_becomes_whole_is_hung_up_on(running, connect):
    connection = connect()
    connection.sendall(whole(running) + signed(running))  # and not a byte of the second one's body
    assert status(connection) == 200
    with contextlib.suppress(http.client.BadStatusLine, ConnectionResetError):
        assert status(connection) == 408
    assert is_closed(connection)


def test_who_takes_no_answer_is_hung_up_on(running):
    asked = f"GET /api/start HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {running.token}\r\n\r\n".encode()
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", running.port))
        connection.sendall(400 * asked)  # 400 answers of 50 kB are more than the kernel keeps
        assert select.select([connection], [], [], 30)[0]
        wait_until(lambda: running.connections == 0)


@pytest.fixture
def serve_with(serve_here, make_run, tmp_path):
    return lambda **limits: serve_here(make_run(tmp_path, images=False), limits=Limits(**limits))


def whole(server):
    return signed(server, HEAD.replace("40", "14")) + b'{"client":"a"}'


def test_an_answered_connection_stays_open_for_the_next_request(serve_with):
    server = serve_with(request_seconds=3)
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        for _ in range(8):
            connection.sendall(whole(server)[:-1])
            time.sleep(0.4)  # each request in time, however busy the machine is, all together not
            connection.sendall(b"}")
            assert status(connection) == 200


def test_who_waits_longest_makes_room(serve_with):
    """Half-open sockets beyond the limit keep nobody out, and who asked last stays."""
    server = serve_with(request_seconds=300, connections=12)
    with contextlib.ExitStack() as opened:

        def connect():
            return opened.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=30))

        asking, crowd = connect(), [connect() for _ in range(8)]
        wait_until(lambda: server.connections == 9)  # who is accepted after the request would count as later
        asking.sendall(whole(server))
        assert status(asking) == 200
        crowd += [connect() for _ in range(6)]
        assert is_closed(crowd[0])
        asking.sendall(whole(server))
        assert status(asking) == 200
