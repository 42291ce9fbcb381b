"""Requests that no browser sends: seeded mutations of what the routes of an application expect."""

from __future__ import annotations

import json
import random
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel

# fmt: off
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW")
# Raw JSON, put where a value belongs.
VALUES = (
    "NaN", "-Infinity", "1e400", "-0", "0", "1", "-1", "1.0", "1.5", "1e3", "true", "null", "[]", "{}", '""', '" "',
    str(2**31), str(2**53 + 1), str(2**63), str(2**64), str(-(2**63) - 1), "9" * 4299, "9" * 4301, "9" * 30_000,
    '"\\ud800"', '"\\udfff\\ud800"', '"\\u0000"', '"\\u001b]0;x\\u0007"', '"\\u202e"', '"1"', '"é"', '"𝕏"', "'x'",
    *('"' + "x" * length + '"' for length in (16, 17, 64, 65, 80, 81, 60_000)),
    *("[" * depth + "]" * depth for depth in (10, 990, 5_000)),
    '{"a":' * 300 + "1" + "}" * 300, '"<script>"', '"../x"', '"\\\\..\\\\x"', '"%00"', "\\", '"', "]", "-", "undefined",
)
PLACES = (
    "1", "0", "-1", "+1", "01", "1.0", "1e3", "0x1", "1_0", "%31", " 1", "٣", "NaN", "null", "true", "", "999999",
    str(2**53), str(2**63), "9" * 5_000, "../1", "..%2f1", "%2e%2e%2f%2e%2e%2fetc%2fpasswd", "%5c..%5cx", "C:x",
    "%00", "%ff%fe", "%ed%a0%80", "%", "%zz", "1;x=1", "1/", "1/../1", "//evil.example/1", "{row}", "$(id)", "'--",
)
HEADERS = (
    "Host: evil.example", "Host: localhost.", "Host: [::ffff:127.0.0.1]", "Host: ", "Host: [", "Host: a:b:c",
    "Host: \xff", "Origin: null", "Origin: http://localhost:9999", "Origin: http://evil.example", "Origin: \xff",
    "Origin: ://", "Content-Type: text/plain", "Content-Type: multipart/form-data; boundary=", "Content-Type: /",
    "Content-Type: application/json; charset=x", "Content-Type: application/x-www-form-urlencoded",
    "Content-Type: \xff", "Content-Encoding: gzip", "Authorization: Bearer ", "Authorization: Basic Og==",
    "Authorization: \xff\xfe", "Authorization: Bearer x y", "Range: bytes=0-1,1-2,2-3", "If-Range: x",
    "If-None-Match: *", "Accept: \xff", "Accept-Encoding: br;q=x", "Cookie: a=b;;=", "X-Forwarded-For: ,,[::",
    "X-Forwarded-Proto: \xff", "Forwarded: for=x", "X-HTTP-Method-Override: DELETE", "Sec-Fetch-Site: cross-site",
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13", "Upgrade: h2c\r\nConnection: Upgrade",
    "Connection: close", "Connection: keep-alive, close", "Expect: nothing", "TE: trailers",
    "X: " + "x" * 15_000, "X: " + "x" * 40_000, "\r\n".join(f"X-{number}: 1" for number in range(150)),
)
# What is said of the length of a body; each deserves an answer before the body comes.
FRAMES = (
    "Content-Length: -1", "Content-Length: +2", "Content-Length: 2, 3", "Content-Length: x", "Content-Length: 0x2",
    "Content-Length: " + "9" * 500, "Content-Length: 65537", "Content-Length: 300000000",
    "Content-Length: 2\r\nContent-Length: 3", "Transfer-Encoding: gzip", "Transfer-Encoding: chunked, chunked",
    "Transfer-Encoding: \xff", "Transfer-Encoding: identity",
)
CHUNKS = (
    b"zz\r\n", b"-1\r\n", b"f" * 40 + b"\r\n", b"2\r\n{}0\r\n\r\n", b"1;" + b"x" * 40_000, b"0\r\n" + b"x" * 40_000,
    b"\0\r\n",
)
# fmt: on


@dataclass(frozen=True)
class Sent:
    """One request as bytes, and what is known of its answer.

    Attributes:
        data: What goes over the wire.
        method: By which the answer is read: one to HEAD has no body.
        alone: Whether it wants a connection of its own, for what follows on it has no meaning.
        decision: The body, where it is a decision or undo as the page sends it.
    """

    data: bytes
    method: str
    alone: bool = False
    decision: Mapping[str, Any] | None = None


@dataclass
class Requests:
    """An endless stream of requests that depends on the seed alone.

    Args:
        routes: Method, path and the model of the body, or None, of every route.
        token: Of the server.
        rows: How many items it has.
        seed: Decides everything.
    """

    routes: list[tuple[str, str, type[BaseModel] | None]]
    token: str
    rows: int
    seed: str
    random: random.Random = field(init=False)
    count: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def next(self) -> Sent:
        """The next one."""
        self.count += 1
        kinds: dict[Callable[[], Sent], int] = {
            self.asked: 3,
            self.body: 9,
            self.header: 3,
            self.path: 3,
            self.broken: 2,
        }
        (make,) = self.random.choices(list(kinds), list(kinds.values()))
        return make()

    def asked(self) -> Sent:
        """A request as the page sends it."""
        method, path, model = self.random.choice(self.routes)
        path = path.replace("{row}", str(self.random.randrange(self.rows)))
        if model is None:
            return self.sent(method, path)
        words = self._words(model)
        return self.sent(
            method, path, json.dumps(words).encode(), decision=words if "ticket" in words else None
        )

    def body(self) -> Sent:
        """A body that is not what the route expects."""
        method, path, model = self.random.choice([each for each in self.routes if each[2] is not None])
        assert model is not None
        words = {name: json.dumps(value) for name, value in self._words(model).items()}
        for _ in range(self.random.choice((1, 1, 2))):
            name = self.random.choice(
                (*words, *model.model_fields, "extra", "\\ud800", "x" * 300, "__class__")
            )
            words[name] = self.random.choice(VALUES)
        for name in self.random.choices(list(words), k=self.random.choice((0, 0, 1))):
            del words[name]
        text = "{" + ",".join(f'"{name}":{value}' for name, value in words.items()) + "}"
        return self.sent(method, path, self._spoiled(text))

    def header(self) -> Sent:
        """A header that does not belong there, on any route."""
        method, path, model = self.random.choice(self.routes)
        content = b"" if model is None else json.dumps(self._words(model)).encode()
        return self.sent(method, path.replace("{row}", "1"), content, extra=self.random.choice(HEADERS))

    def path(self) -> Sent:
        """A path or a method that no route has."""
        _, path, _ = self.random.choice(self.routes)
        path = path.replace("{row}", quote(self.random.choice(PLACES), safe="%/:;$(){}'"))
        path = self.random.choice(
            (path, path, path + "/", path + "?" + "x=%ff&" * 50, "/" + path, path.upper(), path + "%00")
        )
        return self.sent(self.random.choice(METHODS), path, self.random.choice((b"", b"{}")))

    def broken(self) -> Sent:
        """What is hardly HTTP: bytes changed in a head, a body of no sensible length, chunks that are none."""
        path = self.random.choice(self.routes)[1].replace("{row}", "1")
        kind = self.random.choice(("bytes", "bytes", "frame", "chunks"))
        if kind == "bytes":
            head = bytearray(self.sent("GET", path).data)
            for _ in range(self.random.choice((1, 1, 3, 20))):
                place = self.random.randrange(len(head))
                head[place : place + self.random.randrange(3)] = self.random.randbytes(
                    self.random.randrange(3)
                )
            return Sent(bytes(head) + b"\r\n\r\n", "GET", alone=True)
        frame = self.random.choice(FRAMES) if kind == "frame" else "Transfer-Encoding: chunked"
        head = bytearray(self.sent("POST", path, extra=f"Content-Type: application/json\r\n{frame}").data)
        return Sent(
            bytes(head) + (b"{}" if kind == "frame" else self.random.choice(CHUNKS)), "POST", alone=True
        )

    def _words(self, model: type[BaseModel]) -> dict[str, Any]:
        known: dict[str, Any] = {
            "client": f"client {self.random.randrange(8)}",
            "reviewer": "Ann",
            "ticket": f"{self.seed} {self.count}",
            "count": self.random.choice((1, 1, 3)),
            "items": [
                {"row": row, "version": self.random.choice((0, 0, 0, 1, 2))}
                for row in self.random.sample(range(self.rows), self.random.choice((1, 1, 3)))
            ],
            "action": self.random.choice(("accept", "keep", "choose", "drop", "skip")),
            "label": self.random.choice((None, 0, 1)),
            "entry": None,
        }
        return {name: known.get(name) for name in model.model_fields}

    def _spoiled(self, text: str) -> bytes:
        """The text as bytes, half of the time not quite."""
        body = text.encode("utf-8", "surrogatepass")
        place = self.random.randrange(len(body))
        ways: list[Callable[[], bytes]] = [
            *(lambda: body,) * 6,
            lambda: body[:place],
            lambda: body[:place] + self.random.randbytes(3) + body[place:],
            lambda: body + b"\0",
            lambda: text.encode(self.random.choice(("utf-16", "utf-32", "utf-8-sig")), "surrogatepass"),
            lambda: body.ljust(self.random.choice(((1 << 16) - 1, 1 << 16, (1 << 16) + 1, 100_000))),
        ]
        return self.random.choice(ways)()

    def sent(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        extra: str = "",
        decision: Mapping[str, Any] | None = None,
    ) -> Sent:
        """A request of these parts; an extra header takes the place of one of the usual."""
        given = {line.partition(":")[0] for line in extra.split("\r\n")}
        lines = ["Host: localhost", f"Authorization: Bearer {self.token}", "Content-Type: application/json"]
        kept = [line for line in lines if line.partition(":")[0] not in given]
        if body:
            kept.append(f"Content-Length: {len(body)}")
        head = "\r\n".join((f"{method} {path} HTTP/1.1", *kept, *([extra] if extra else []))).encode(
            "latin-1", "replace"
        )
        return Sent(head + b"\r\n\r\n" + body, method, decision=decision)


def routes_of(app: Any) -> list[tuple[str, str, type[BaseModel] | None]]:
    """Method, path and the model of the body of every route in an application's own table."""
    found = []
    for route in app.routes:
        hints = typing.get_type_hints(route.endpoint)
        models = [kind for kind in hints.values() if isinstance(kind, type) and issubclass(kind, BaseModel)]
        found += [(method, route.path, models[0] if models else None) for method in sorted(route.methods)]
    return found
