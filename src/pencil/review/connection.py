"""Connections with time limits. If there are too many, the connection that has been idle longest is closed.

uvicorn closes idle connections after a response, but waits indefinitely for incomplete requests and for clients that
do not read their response. A ``Bounded`` connection wraps uvicorn's connection to limit both.
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
    """Limits on connections.

    Attributes:
        request_seconds: Time limit from the first byte of a request (or from the connection) to the last byte of its
            body, for a client to read any byte of a response, and for its next request after a response.
        connections: Maximum number of open connections. A browser opens up to six; the usual limit of open files is
            1,024 per process.
    """

    request_seconds: float = 20.0
    connections: int = 512


LIMITS = Limits()


def protocol(limits: Limits) -> Callable[..., asyncio.Protocol]:
    """Return the factory that uvicorn creates connections with."""
    uvicorn_http = need("uvicorn.protocols.http.h11_impl", extra="review", purpose=PURPOSE)
    h11 = need("h11", extra="review", purpose=PURPOSE)
    crowd: dict[Bounded, None] = {}

    def connection(**words: Any) -> asyncio.Protocol:
        return Bounded(uvicorn_http.H11Protocol(**words), h11, crowd, limits)

    return connection


class Bounded(asyncio.Protocol):
    """Wraps a connection of uvicorn with a time limit for every wait.

    Args:
        inner: uvicorn's connection.
        h11: The HTTP package that uvicorn uses.
        crowd: All open connections, ordered by the time of their last complete request, oldest first.
        limits: The limits.
    """

    def __init__(self, inner: Any, h11: Any, crowd: dict[Bounded, None], limits: Limits) -> None:
        self._inner, self._h11, self._crowd, self._limits = inner, h11, crowd, limits
        self._transport: Any = None
        self._request: asyncio.TimerHandle | None = None
        self._answer: asyncio.TimerHandle | None = None

    @property
    def waits(self) -> bool:
        """Whether no complete request is pending."""
        return self._inner.conn.their_state in (self._h11.IDLE, self._h11.SEND_BODY)

    @property
    def _between(self) -> bool:
        """Whether the last request is complete and no byte of another has arrived."""
        conn = self._inner.conn
        return not self.waits or (conn.their_state is self._h11.IDLE and not conn.trailing_data[0])

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start waiting for a request."""
        self._transport = transport
        self._transport.set_write_buffer_limits(high=0)  # report any byte that the client has not read
        self._inner.connection_made(transport)
        self._crowd[self] = None
        if len(self._crowd) > self._limits.connections:
            self._make_room()
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Forward received data."""
        try:
            self._inner.data_received(data)
        except Exception:  # uvicorn handles invalid HTTP, except if a response was already started
            self._transport.abort()
        if self._transport.is_closing() and self._inner.cycle is not None:
            self._inner.cycle.disconnected = True  # prevents a second response
        self._watch()

    def eof_received(self) -> bool | None:
        """Forward the end of the client's data."""
        ended: bool | None = self._inner.eof_received()
        return ended

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers."""
        self._crowd.pop(self, None)
        for timer in (self._request, self._answer):
            if timer is not None:
                timer.cancel()
        self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        """Start the timer for reading the response."""
        self._inner.pause_writing()
        self._expect_taking(self._transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """Stop the timer: the client has read everything."""
        if self._answer is not None:
            self._answer.cancel()
            self._answer = None
        self._inner.resume_writing()

    def end(self) -> None:
        """Close the connection immediately."""
        self._crowd.pop(self, None)
        self._transport.abort()

    def _watch(self) -> None:
        """Run the timer of a request from its first byte to its last; further bytes do not reset it."""
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
