"""The review over HTTP: one page, and an interface of JSON behind a token."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import signal
import socket
from collections.abc import Callable
from importlib import resources
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from pencil.errors import ConfigError, PencilError
from pencil.imports import need
from pencil.review.access import App, Guarded, HostNames
from pencil.review.connection import LIMITS, PURPOSE, Limits, protocol
from pencil.review.history import TicketError, Who
from pencil.review.session import OvertakenError, Review

PORT = 8642
GRACE_SECONDS = 2
LARGEST = 1 << 53  # of integers that JavaScript tells apart; SQLite ends at 2^63
LONGEST_ERROR = 300


def _plain(text: str) -> str:
    if any(ord(letter) < 32 or 127 <= ord(letter) < 160 for letter in text):
        raise ValueError("control characters are not allowed")
    return text


Number = Annotated[int, Field(ge=0, le=LARGEST)]
Name = Annotated[str, AfterValidator(_plain)]
Routes = dict[str, tuple[str, Callable[..., Any]]]
"""Method and endpoint by path."""


class Asked(BaseModel):
    """What every request tells of its sender."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True, strict=True)

    client: Name = Field(min_length=1, max_length=64)


class Signed(Asked):
    """A request that enters something: once, however often it is sent."""

    reviewer: Name = Field(min_length=1, max_length=80)
    ticket: Name = Field(min_length=1, max_length=64)

    @property
    def who(self) -> Who:
        """Its sender."""
        return Who(self.reviewer, self.client)


class Decided(Signed):
    """An action on an item."""

    place: Number
    version: Number
    action: Name = Field(max_length=16)
    label: Number | None = None


class TakenBack(Signed):
    """An undo; without an entry, of the client's newest."""

    entry: Number | None = None


def check_installed() -> None:
    """Say what is missing before any work is done."""
    need("fastapi", extra="review", purpose=PURPOSE)
    need("uvicorn", extra="review", purpose=PURPOSE)


def build_app(review: Review, token: str, host: str, reviewer: str, limits: Limits = LIMITS) -> App:
    """The application, guarded."""
    fastapi = need("fastapi", extra="review", purpose=PURPOSE)
    app = fastapi.FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    responses = need("fastapi.responses", extra="review", purpose=PURPOSE)
    page = page_text()
    _add_routes(app, review, reviewer, responses)
    app.add_api_route("/", lambda: responses.HTMLResponse(page), methods=["GET"])
    _add_refusals(app, review, responses)
    return Guarded(app, token, HostNames.of(host), policy_for(page), limits)


def _answer(responses: Any, content: Any, status: int = 200) -> Any:
    """JSON in ASCII: names of files and of classes may hold what is no text, and what was asked for anything."""
    body = json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")
    return responses.Response(body, status, media_type="application/json")


def _image(responses: Any, place: int, found: bytes | None) -> Any:
    if found is None:
        return _answer(responses, {"error": f"item {place}: its data is no image"}, 404)
    return responses.Response(found, media_type="image/png")


def _text(responses: Any, place: int, found: str | None) -> Any:
    if found is None:
        return _answer(responses, {"error": f"item {place}: its data is no text"}, 404)
    return _answer(responses, {"text": found})


def _originals(review: Review, responses: Any) -> Routes:
    def image(place: Number) -> Any:
        return _image(responses, place, review.picture(place))

    def text(place: Number) -> Any:
        return _text(responses, place, review.text(place))

    return {"/api/image/{place}": ("GET", image), "/api/text/{place}": ("GET", text)}


def _add_routes(app: Any, review: Review, reviewer: str, responses: Any) -> None:
    def start() -> Any:
        return _answer(responses, {**review.start(), "reviewer": reviewer})

    def take_next(asked: Asked) -> Any:
        return _answer(responses, review.take_next(asked.client))

    def decide(decided: Decided) -> Any:
        made = review.decide(
            decided.who, decided.ticket, decided.place, decided.version, decided.action, decided.label
        )
        return _answer(responses, made)

    def undo(taken: TakenBack) -> Any:
        return _answer(responses, review.undo(taken.who, taken.ticket, taken.entry))

    def recent() -> Any:
        return _answer(responses, review.recent())

    # In threads, for they wait for the disk.
    routes: Routes = {
        "/api/start": ("GET", start),
        "/api/next": ("POST", take_next),
        "/api/decide": ("POST", decide),
        "/api/undo": ("POST", undo),
        "/api/recent": ("GET", recent),
        **_originals(review, responses),
    }
    for path, (method, endpoint) in routes.items():
        app.add_api_route(path, endpoint, methods=[method], response_model=None)


def _add_refusals(app: Any, review: Review, responses: Any) -> None:
    """Every error as one line that repeats little of what was sent."""
    exceptions = need("starlette.exceptions", extra="review", purpose=PURPOSE)
    invalid = need("fastapi.exceptions", extra="review", purpose=PURPOSE).RequestValidationError

    def refuse(status: int, error: object, **more: Any) -> Any:
        return _answer(responses, {"error": str(error)[:LONGEST_ERROR], **more}, status)

    async def refused(_: Any, error: PencilError) -> Any:
        return refuse(409 if isinstance(error, TicketError) else 400, error)

    async def overtaken(_: Any, error: OvertakenError) -> Any:
        return refuse(409, error, overtaken=review.describe(error.entry))

    async def mistaken(_: Any, error: Any) -> Any:
        first = error.errors()[0]
        return refuse(422, f"{'.'.join(map(str, first['loc'][1:])) or 'body'}: {first['msg']}")

    async def unknown(_: Any, error: Any) -> Any:
        return refuse(error.status_code, error.detail)

    for kind, handler in {
        PencilError: refused,
        OvertakenError: overtaken,
        invalid: mistaken,
        exceptions.HTTPException: unknown,
    }.items():
        app.add_exception_handler(kind, handler)


def page_text() -> str:
    """The page: one file, nothing from elsewhere."""
    return resources.files("pencil.review").joinpath("page.html").read_text(encoding="utf-8")


def policy_for(page: str) -> str:
    """A Content-Security-Policy that runs this page's own script and style and nothing else."""
    script, style = (_hash_of(page, tag) for tag in ("script", "style"))
    return (
        f"default-src 'none'; script-src '{script}'; style-src '{style}'; img-src blob: data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _hash_of(page: str, tag: str) -> str:
    (content,) = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def listen(host: str, port: int | None) -> socket.socket:
    """A listening socket; without a port on ours, or on any free one where that is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Said to be TCP, or asyncio does not switch off Nagle's algorithm, and every answer waits 40 ms for an ACK.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, PORT if port is None else port))
        listening.listen()
    except OSError as error:
        listening.close()
        if port is None:
            return listen(host, 0)
        raise ConfigError(
            f"--host {host} --port {port}: cannot listen there ({error.strerror or error}); "
            "leave --port out for a free one"
        ) from error
    return listening


def address(listening: socket.socket, token: str) -> str:
    """What to open in a browser. The token stands behind #, which browsers keep to themselves."""
    host, port = listening.getsockname()[:2]
    shown = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)  # noqa: S104
    return f"http://{f'[{shown}]' if ':' in shown else shown}:{port}/#{token}"


def make_server(app: App, limits: Limits = LIMITS) -> Any:
    """A server that says nothing of itself and ends without waiting for idle connections."""
    uvicorn = need("uvicorn", extra="review", purpose=PURPOSE)
    settings = uvicorn.Config(
        app,
        http=protocol(limits),
        log_level="error",  # a client's mistakes are told to the client
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    return uvicorn.Server(settings)


def serve(app: App, listening: socket.socket) -> None:
    """Answer until Ctrl-C or SIGTERM."""
    # uvicorn ends in order and then raises the signal again for whoever waited before it.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        make_server(app).run(sockets=[listening])
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)
