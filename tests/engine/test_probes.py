"""Connections that are opened while somebody asks for it are probed by the system, and no others."""

import socket
import sys

import pytest

from pencil.engine.probes import probed

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process's sockets")


@pytest.fixture
def connect():
    """A function that opens a listening socket, a connection to it, and what it accepted."""
    opened = []

    def make(listening=None):
        server = listening or socket.create_server(("127.0.0.1", 0))
        client = socket.create_connection(server.getsockname())
        opened.extend((server, client, server.accept()[0]))
        return opened[-3:]

    yield make
    for each in opened:
        each.close()


def seconds_of(opened):
    """For how long the other end may be silent, or None."""
    if not opened.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE):
        return None
    pauses = [
        opened.getsockopt(socket.IPPROTO_TCP, option)
        for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL)
    ]
    seconds = opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) / 1000
    assert 1 <= pauses[0] == pauses[1] <= seconds
    return seconds


def test_connections_of_the_block_are_probed_and_those_before_and_after_are_not(connect):
    before = connect()
    with probed(20.0):
        during = connect()
    after = connect()
    assert [seconds_of(each) for each in during] == [20.0] * 3
    assert [seconds_of(each) for each in (*before, *after)] == [None] * 6


def test_what_a_listening_socket_accepts_later_is_probed_too(connect):
    with probed(9.5):
        server, _, _ = connect()
    _, client, accepted = connect(server)
    assert seconds_of(accepted) == 9.5
    assert seconds_of(client) is None


def test_sockets_that_are_no_network_and_closed_ones_are_left_alone():
    with probed(5.0):
        one, other = socket.socketpair()
        socket.create_server(("127.0.0.1", 0)).close()
    one.sendall(b"still there")
    assert other.recv(20) == b"still there"
    one.close()
    other.close()


def test_a_connection_still_carries_data_after_it_was_prepared(connect):
    with probed(1.0):
        _, client, accepted = connect()
    client.sendall(b"hello")
    assert accepted.recv(5) == b"hello"
