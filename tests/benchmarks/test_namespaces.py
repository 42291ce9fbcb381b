"""Hosts on one machine: they reach each other, their links can be cut, and they leave nothing behind."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SERVE = """
import socket, sys
server = socket.create_server((sys.argv[1], 5000))
while True:
    server.accept()[0].close()
"""
KNOCK = """
import socket, sys, time
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    try:
        sys.exit(socket.create_connection((sys.argv[1], 5000), 1.0).close())
    except OSError:
        time.sleep(0.05)
sys.exit(1)
"""


@pytest.fixture
def hosts(imported):
    with imported("faults.namespaces") as namespaces:
        if (reason := namespaces.unavailable()) is not None:
            pytest.skip(reason)
        yield namespaces.hosts


def knock(host, other, seconds):
    """0 where one host reaches the other within some seconds."""
    command = [sys.executable, "-c", KNOCK, other.address, str(seconds)]
    return host.start(command, {}, Path(os.devnull)).wait(120)


def test_hosts_are_gone_after_an_error_and_what_ran_on_them_has_ended(hosts):
    with contextlib.suppress(ZeroDivisionError), hosts(2) as place:
        sleeper = place[0].start(["sleep", "600"], {}, Path(os.devnull))
        names = [host.namespace for host in place]
        assert all(Path("/run/netns", name).exists() for name in names)
        _ = 1 / 0
    assert sleeper.wait(60) == -9
    assert not any(Path("/run/netns", name).exists() for name in names)


def test_hosts_of_a_process_that_was_killed_are_removed_by_the_next_to_make_some(hosts):
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    left = f"pencil-{process.pid}-0-host0"
    subprocess.run(["ip", "netns", "add", left], check=True)
    with hosts(1):
        assert not Path("/run/netns", left).exists()


def test_hosts_reach_each_other_until_a_link_is_cut(hosts):
    """By a connection from one to the other, tried from inside."""
    with hosts(3) as place:
        server = place[0].start([sys.executable, "-c", SERVE, place[0].address], {}, Path(os.devnull))
        assert [knock(host, place[0], 60) for host in place[1:]] == [0, 0]
        place[2].cut()
        assert [knock(place[1], place[0], 60), knock(place[2], place[0], 1)] == [0, 1]
        place[2].restore()
        assert knock(place[2], place[0], 60) == 0
        server.kill()
        server.wait()


@pytest.mark.parametrize(
    ("place", "answer", "reason"),
    [("shutil.which", None, "install iproute2"), ("os.geteuid", 1000, "need root")],
)
def test_where_no_hosts_can_be_made_the_reason_is_told(imported, monkeypatch, place, answer, reason):
    with imported("faults.namespaces") as namespaces:
        monkeypatch.setattr("shutil.which", lambda _: "/sbin/ip")
        monkeypatch.setattr(place, lambda *_: answer)
        assert reason in namespaces.unavailable()
