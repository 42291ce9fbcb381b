"""Who may talk to the server."""

import pytest

from pencil.errors import ConfigError
from pencil.review.access import HostNames, check_host, is_loopback, new_token


@pytest.mark.parametrize(
    ("host", "header", "allowed"),
    [
        ("127.0.0.1", "127.0.0.1:8642", True),
        ("127.0.0.1", "LOCALHOST:9999", True),
        ("127.0.0.1", "[::1]:8642", True),
        ("127.0.0.1", "localhost", True),
        ("127.0.0.1", "", False),
        ("127.0.0.1", "evil.example:8642", False),
        ("127.0.0.1", "127.0.0.1.evil.example", False),
        ("127.0.0.1", "localhost.evil.example:8642", False),
        ("127.0.0.1", "192.168.0.7:8642", False),
        ("127.0.0.1", "localhost:", True),
        ("127.0.0.1", "localhost.", False),
        ("127.0.0.1", "localhost.:8642", False),
        ("127.0.0.1", "[::ffff:127.0.0.1]:8642", False),
        ("127.0.0.1", "127.1", False),
        ("127.0.0.1", "2130706433", False),
        ("127.0.0.1", "localhost:8642:evil.example", False),
        ("127.0.0.1", "localhost:evil.example", False),
        ("127.0.0.1", "evil.example@localhost", False),
        ("127.0.0.1", "localhost, evil.example", False),
        ("127.0.0.1", "[::1", False),
        ("127.0.0.1", "[::1]evil.example", False),
        ("127.0.0.1", "[evil]:1", False),
        ("0.0.0.0", "192.168.0.7:8642", True),
        ("0.0.0.0", "[fe80::1]:8642", True),
        ("0.0.0.0", "evil.example:8642", False),
        ("box.example", "box.example:8642", True),
    ],
)
def test_only_the_servers_own_names_will_do(host, header, allowed):
    assert HostNames.of(host).allow(header) is allowed


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.0.7", "::", "box.example"])
def test_a_host_that_others_reach_must_be_asked_for_twice(host):
    assert not is_loopback(host)
    with pytest.raises(ConfigError, match=r"--host .*; keep 127.0.0.1 .*--allow-remote"):
        check_host(host, allow_remote=False)
    check_host(host, allow_remote=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost"])
def test_this_machine_alone_needs_no_leave(host):
    check_host(host, allow_remote=False)


def test_tokens_are_long_and_new_each_time():
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert min(map(len, tokens)) >= 43
