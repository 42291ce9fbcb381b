"""Who may talk to the server: a token for everything but the empty page, and only under the server's own names."""

from __future__ import annotations

import hmac
import ipaddress
import json
import secrets
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from pencil.errors import ConfigError

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN_PATHS = frozenset({"/"})  # the page itself holds nothing of the run


def new_token() -> str:
    """256 random bits as text."""
    return secrets.token_urlsafe(32)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_host(host: str, *, allow_remote: bool) -> None:
    """Refuse to be reachable from elsewhere unless that was asked for."""
    if not is_loopback(host) and not allow_remote:
        raise ConfigError(
            f"--host {host}: others on the network could reach the review, unencrypted; keep 127.0.0.1 and forward "
            "the port (ssh -L), or add --allow-remote"
        )


@dataclass(frozen=True)
class HostNames:
    """The names a request may call the server by: another one means DNS rebinding.

    Attributes:
        names: Host names, in lower case.
        any_address: Whether any IP address will do; rebinding needs a name.
    """

    names: frozenset[str]
    any_address: bool = False

    @classmethod
    def of(cls, host: str) -> HostNames:
        """For a server that listens on ``host``."""
        local = {"127.0.0.1", "localhost", "::1"}
        if is_loopback(host):
            return cls(frozenset({*local, host.lower()}))
        return cls(frozenset({*local, host.lower(), socket.gethostname().lower()}), any_address=True)

    def allow(self, header: str) -> bool:
        """Whether a Host header names this server, on whatever port: a tunnel may have another."""
        name = _without_port(header).lower()
        return name in self.names or (self.any_address and _is_address(name))


def _without_port(header: str) -> str:
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.rpartition(":")[0] if ":" in header else header


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class Guarded:
    """An ASGI application behind the checks, with headers that forbid a browser everything the page does not need."""

    app: App
    token: str
    hosts: HostNames
    policy: str

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through or refuse it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, self._with_headers(send))
        else:
            await send({"type": "websocket.close"})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if not self.hosts.allow(headers.get(b"host", "")):
            await _refuse(send, 421, "this server does not go by that name; use the address that it printed")
        elif scope["path"] not in OPEN_PATHS and not self._knows(headers.get(b"authorization", "")):
            await _refuse(
                send, 401, "the token is missing or wrong; open the address that pencil review printed"
            )
        else:
            await self.app(scope, receive, send)

    def _knows(self, header: str) -> bool:
        return hmac.compare_digest(header.encode("latin-1"), f"Bearer {self.token}".encode("latin-1"))

    def _with_headers(self, send: Send) -> Send:
        added = [
            (b"content-security-policy", self.policy.encode("ascii")),
            (b"x-content-type-options", b"nosniff"),
            (b"referrer-policy", b"no-referrer"),
            (b"cross-origin-resource-policy", b"same-origin"),
            (b"cross-origin-opener-policy", b"same-origin"),
            (b"cache-control", b"no-store"),
        ]

        async def sending(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *added]
            await send(message)

        return sending


async def _refuse(send: Send, status: int, reason: str) -> None:
    body = json.dumps({"error": reason}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
