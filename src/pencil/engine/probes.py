"""Connections that detect a host which no longer responds.

A process that dies closes its connections, and the other ranks notice at once. A host that loses its link or its power
closes nothing: the others would wait for the time-out of a collective, half an hour with gloo. A shorter time-out would
end healthy runs in which one rank reads or writes for long. So the operating system probes the connections (TCP
keepalive). The other host's system responds, however busy its rank is.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

PROBES = 4  # in the time that a host may be silent


@contextlib.contextmanager
def probed(seconds: float) -> Iterator[None]:
    """TCP connections opened in the block fail once the other end has been silent for so long; on Linux only.

    Those that a listening socket of the block accepts later inherit it.
    """
    before = _sockets()
    yield
    for name, descriptor in _sockets().items():
        if name not in before:
            with contextlib.suppress(OSError):  # closed by now, or no network socket
                _probe(descriptor, seconds)


def _sockets() -> dict[str, int]:
    """The descriptors of this process's sockets, by the name that the system gives each socket."""
    found: dict[str, int] = {}
    if sys.platform == "linux":
        for link in Path("/proc/self/fd").iterdir():
            with contextlib.suppress(OSError):  # the descriptor of the listing itself
                if (name := str(link.readlink())).startswith("socket:"):
                    found[name] = int(link.name)
    return found


def _probe(descriptor: int, seconds: float) -> None:
    if sys.platform == "linux":
        with socket.socket(fileno=os.dup(descriptor)) as opened:  # the same socket; only the copy is closed
            pause = max(1, int(seconds / PROBES))
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, pause)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, pause)
            # Also where something was sent and never acknowledged, when the system does not probe.
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(seconds * 1000))
