"""Access control of the server: a token for everything except the empty page, and a check of host names and origins.

Requests are rejected by their headers before the body is read; bodies have a size limit.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import re
import secrets
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

from pencil.errors import ConfigError
from pencil.review.connection import LIMITS, Limits

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN_PATHS = frozenset({"/"})  # the page itself contains no data of the run
BODY_BYTES = 1 << 16  # a decision takes about 200

NO_PATH = "the request must name a path of this server, beginning with /"
OTHER_NAME = "unknown host name; open the address that pencil review printed"
OTHER_ORIGIN = "the request comes from another origin; open the address that pencil review printed"
TOO_LARGE = f"the body must not exceed {BODY_BYTES:,} bytes"
NO_TOKEN = "the token is missing or wrong; open the address that pencil review printed"  # noqa: S105 - a message
OTHER_TYPE = "the body must be application/json"


def new_token() -> str:
    """Return 256 random bits as text."""
    return secrets.token_urlsafe(32)


def is_loopback(host: str) -> bool:
    """Whether the host can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_host(host: str, *, allow_remote: bool) -> None:
    """Check that the server is reachable from other machines only with ``allow_remote``.

    Raises:
        ConfigError: The host is not a loopback address.
    """
    if not is_loopback(host) and not allow_remote:
        raise ConfigError(
            f"--host {host}: the review would be reachable from the network without encryption; keep 127.0.0.1 and "
            "forward the port (ssh -L), or add --allow-remote"
        )


@dataclass(frozen=True)
class HostNames:
    """The host names that requests may use, as a protection against DNS rebinding.

    Attributes:
        names: Host names, in lower case.
        any_address: Whether to accept any IP address; rebinding requires a name.
    """

    names: frozenset[str]
    any_address: bool = False

    @classmethod
    def of(cls, host: str) -> HostNames:
        """The names of a server that listens on ``host``."""
        local = {"127.0.0.1", "localhost", "::1"}
        if is_loopback(host):
            return cls(frozenset({*local, host.lower()}))
        return cls(frozenset({*local, host.lower(), socket.gethostname().lower()}), any_address=True)

    def allow(self, header: str) -> bool:
        """Whether a Host header names this server; the port is ignored, because a tunnel may use another."""
        name = _without_port(header).lower()
        return name in self.names or (self.any_address and _is_address(name))


def _without_port(header: str) -> str:
    """The name in ``name``, ``name:80`` or ``[address]:80``; empty for any other form."""
    found = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]]+))(?::[0-9]{0,5})?", header)
    return "" if found is None else found[1] or found[2]


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class Guarded:
    """Wraps an ASGI application with the access checks and restrictive response headers."""

    app: App
    token: str
    hosts: HostNames
    policy: str
    limits: Limits = LIMITS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request or reject it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, self._with_headers(send))
        else:
            await send({"type": "websocket.close"})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        refused = self._refusal(scope["path"], headers)
        if refused is not None:
            length = _declared(headers)  # a short unread body does not require closing the connection
            await _refuse(send, *refused, close=length is None or length > BODY_BYTES)
            return
        try:
            async with asyncio.timeout(self.limits.request_seconds):
                body = await _read(receive)
        except TimeoutError:
            await _refuse(send, 408, "the request was not completed in time", close=True)
            return
        if body is None:
            return
        if len(body) > BODY_BYTES:
            await _refuse(send, 413, TOO_LARGE, close=True)
        else:
            await self.app(scope, _replay(body, receive), send)

    def _refusal(self, path: str, headers: Mapping[bytes, str]) -> tuple[int, str] | None:
        """Status and reason for rejecting a request, from its headers only; None to accept it."""
        host, length = headers.get(b"host", ""), _declared(headers)
        checks = (
            (path.startswith("/"), 400, NO_PATH),
            (self.hosts.allow(host), 421, OTHER_NAME),
            (_is_own(headers.get(b"origin"), host), 403, OTHER_ORIGIN),
            (length is None or length <= BODY_BYTES, 413, TOO_LARGE),
            (path in OPEN_PATHS or self._knows(headers.get(b"authorization", "")), 401, NO_TOKEN),
            (length == 0 or _is_json(headers), 415, OTHER_TYPE),
        )
        return next(((status, reason) for holds, status, reason in checks if not holds), None)

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


def _is_own(origin: str | None, host: str) -> bool:
    """Whether a request comes from a page of this server, under any of its names, or has no origin."""
    return origin is None or origin.partition("://")[2].lower() == host.lower()


def _declared(headers: Mapping[bytes, str]) -> int | None:
    """The declared length of the body; None for a chunked body."""
    if b"transfer-encoding" in headers:
        return None
    length = headers.get(b"content-length", "0")
    return int(length) if length.isdecimal() and len(length) < 20 else sys.maxsize


def _is_json(headers: Mapping[bytes, str]) -> bool:
    return headers.get(b"content-type", "").partition(";")[0].strip().lower() == "application/json"


async def _read(receive: Receive) -> bytes | None:
    """Read a body, up to just over the size limit; None if the client disconnected."""
    body, more = bytearray(), True
    while more and len(body) <= BODY_BYTES:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return bytes(body)


def _replay(body: bytes, receive: Receive) -> Receive:
    """A receive function that returns the body already read, then further messages."""
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> MutableMapping[str, Any]:
        return waiting.pop() if waiting else await receive()

    return replay


async def _refuse(send: Send, status: int, reason: str, *, close: bool) -> None:
    body = json.dumps({"error": reason}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if close:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
