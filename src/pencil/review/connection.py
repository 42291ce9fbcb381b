"""Connections that end: a request arrives in time or not at all, and who waits longest makes room for others.

uvicorn closes a connection that was answered and then idles, but waits for ever for a request that never becomes whole
and for a client that never reads its answer. A ``Bounded`` connection stands between asyncio and uvicorn's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pencil.imports import need

PURPOSE = "serve the review"


@dataclass(frozen=True)
class Limits:
    """What one client may ask of the server.

    Attributes:
        request_seconds: From the first byte of a request, or from the connection, to the last byte of its body; and
            how long an answer may wait without a byte of it being taken.
        connections: How many are open at once. A browser opens up to six; processes may have 1,024 files open.
    """

    request_seconds: float = 20.0
    connections: int = 512


LIMITS = Limits()


def protocol(limits: Limits) -> Callable[..., asyncio.Protocol]:
    """What uvicorn makes connections by."""
    uvicorn_http = need("uvicorn.protocols.http.h11_impl", extra="review", purpose=PURPOSE)
    h11 = need("h11", extra="review", purpose=PURPOSE)
    crowd: dict[Bounded, None] = {}

    def connection(**words: Any) -> asyncio.Protocol:
        return Bounded(uvicorn_http.H11Protocol(**words), h11, crowd, limits)

    return connection


class Bounded(asyncio.Protocol):
    """A connection of uvicorn's, with an end to every wait.

    Args:
        inner: uvicorn's.
        h11: The package that reads HTTP for it.
        crowd: All open connections, the one whose last whole request is longest ago first.
        limits: How long, how many.
    """

    def __init__(self, inner: Any, h11: Any, crowd: dict[Bounded, None], limits: Limits) -> None:
        self._inner, self._h11, self._crowd, self._limits = inner, h11, crowd, limits
        self._transport: Any = None
        self._request: asyncio.TimerHandle | None = None
        self._answer: asyncio.TimerHandle | None = None

    @property
    def waits(self) -> bool:
        """Whether it has no whole request to answer."""
        return self._inner.conn.their_state in (self._h11.IDLE, self._h11.SEND_BODY)

    @property
    def _between(self) -> bool:
        """Whether the last request is whole and not a byte of another is there."""
        conn = self._inner.conn
        return not self.waits or (conn.their_state is self._h11.IDLE and not conn.trailing_data[0])

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for a request."""
        self._transport = transport
        self._transport.set_write_buffer_limits(high=0)  # tell of any byte that is not taken
        self._inner.connection_made(transport)
        self._crowd[self] = None
        if len(self._crowd) > self._limits.connections:
            self._make_room()
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Pass on what came."""
        try:
            self._inner.data_received(data)
        except Exception:  # uvicorn answers broken HTTP, but not where an answer was sent or begun already
            self._transport.abort()
        if self._transport.is_closing() and self._inner.cycle is not None:
            self._inner.cycle.disconnected = True  # or the application answers a second time
        self._watch()

    def eof_received(self) -> bool | None:
        """Nothing more will come."""
        ended: bool | None = self._inner.eof_received()
        return ended

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        self._crowd.pop(self, None)
        for timer in (self._request, self._answer):
            if timer is not None:
                timer.cancel()
        self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        """The client is slow to take its answer."""
        self._inner.pause_writing()
        self._expect_taking(self._transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """It took all of it."""
        if self._answer is not None:
            self._answer.cancel()
            self._answer = None
        self._inner.resume_writing()

    def end(self) -> None:
        """Close at once, whatever is left."""
        self._crowd.pop(self, None)
        self._transport.abort()

    def _watch(self) -> None:
        """Run the clock of a request from its beginning until it is whole; more bytes do not set it back."""
        if not self.waits:
            self._crowd[self] = self._crowd.pop(self, None)
        if self._request is not None and self._between:
            self._request.cancel()
            self._request = None
        if self.waits and self._request is None:
            self._request = self._later(self.end)

    def _expect_taking(self, left: int) -> None:
        self._answer = self._later(self._check_taking, left)

    def _check_taking(self, before: int) -> None:
        left = self._transport.get_write_buffer_size()
        if left < before:
            self._expect_taking(left)
        else:
            self.end()

    def _make_room(self) -> None:
        longest = next((other for other in self._crowd if other.waits and other is not self), None)
        if longest is not None:
            longest.end()

    def _later(self, call: Callable[..., None], *words: Any) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(self._limits.request_seconds, call, *words)
