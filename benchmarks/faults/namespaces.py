"""Hosts on one machine: network namespaces with addresses of their own, joined by a switch whose links can be cut.

They share the file system, the processors and the clock; what they do not share is the network. Nothing leads from
them to the outside, so addresses and ports meet nobody else's.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

LINK = "eth0"  # what a host calls its only link
PREFIX = "pencil"
_numbers = itertools.count()


def unavailable() -> str | None:
    """Why no hosts can be made here, or None."""
    if shutil.which("ip") is None:
        return "hosts need the command ip: install iproute2"
    if os.geteuid() != 0:
        return "hosts need root, to make network namespaces"
    return None if _can_be_made() else "this system lets nobody make network namespaces with veth links"


@dataclass(frozen=True)
class Host:
    """One of the hosts: a namespace with one link to the switch."""

    number: int
    namespace: str
    switch: str
    started: list[subprocess.Popen[bytes]] = field(default_factory=list, compare=False)

    @property
    def address(self) -> str:
        """Where the others reach it."""
        return f"10.77.0.{self.number + 1}"

    def start(
        self, command: Sequence[str], environment: Mapping[str, str], output: Path
    ) -> subprocess.Popen[bytes]:
        """Run a program here; what it says is added to a file."""
        with output.open("ab") as file:
            process = subprocess.Popen(
                ["ip", "netns", "exec", self.namespace, *command],  # becomes the command: same process
                env=environment,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.started.append(process)
        return process

    def cut(self) -> None:
        """Unplug its link at the switch: nothing arrives, and nobody is told."""
        _ip("-n", self.switch, "link", "set", self._port, "down")

    def restore(self) -> None:
        """Plug it in again."""
        _ip("-n", self.switch, "link", "set", self._port, "up")

    def kill_all(self) -> None:
        """SIGKILL to everything that runs here, as when the machine dies."""
        for started in self.started:  # those that have not entered the namespace yet are not listed there
            started.kill()
        while found := _ip("netns", "pids", self.namespace).split():  # again: some may just have been started
            for process in map(int, found):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
        for started in self.started:
            started.wait()

    @property
    def _port(self) -> str:
        return f"port{self.number}"

    def _plug_in(self) -> None:
        _ip("netns", "add", self.namespace)
        peer = ("peer", "name", LINK, "netns", self.namespace)
        _ip("-n", self.switch, "link", "add", self._port, "type", "veth", *peer)
        _ip("-n", self.switch, "link", "set", self._port, "master", "switch")
        _ip("-n", self.namespace, "address", "add", f"{self.address}/24", "dev", LINK)
        for link in ("lo", LINK):
            _ip("-n", self.namespace, "link", "set", link, "up")
        self.restore()


@contextlib.contextmanager
def hosts(count: int) -> Iterator[list[Host]]:
    """So many hosts that reach each other; whatever runs on them ends with the block, and they are gone."""
    _remove_leftovers()
    name = f"{PREFIX}-{os.getpid()}-{next(_numbers)}"
    switch = f"{name}-switch"
    made = [Host(number, f"{name}-host{number}", switch) for number in range(count)]
    try:
        _ip("netns", "add", switch)
        _ip("-n", switch, "link", "add", "switch", "type", "bridge")
        _ip("-n", switch, "link", "set", "switch", "up")
        for host in made:
            host._plug_in()
        yield made
    finally:
        _remove([*made, Host(count, switch, switch)])


def _can_be_made() -> bool:
    try:
        with hosts(1):
            return True
    except subprocess.CalledProcessError:
        return False


def _remove_leftovers() -> None:
    """Those of processes that were killed."""
    names = [line.split()[0] for line in _ip("netns", "list").splitlines() if line.startswith(f"{PREFIX}-")]
    _remove([Host(0, name, name) for name in names if not Path(f"/proc/{name.split('-')[1]}").exists()])


def _remove(made: Sequence[Host]) -> None:
    for host in made:
        with contextlib.suppress(subprocess.CalledProcessError):  # it was never made, or another removed it
            host.kill_all()
            _ip("netns", "delete", host.namespace)


def _ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout
