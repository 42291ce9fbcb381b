"""The review over HTTP: one page, and an interface of JSON behind a token."""

from __future__ import annotations

import base64
import hashlib
import re
import signal
import socket
from collections.abc import Callable
from importlib import resources
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from pencil.errors import ConfigError, PencilError, need
from pencil.review.access import App, Guarded, HostNames
from pencil.review.history import Who
from pencil.review.session import Answer, OvertakenError, Review

PORT = 8642
PURPOSE = "serve the review"
GRACE_SECONDS = 2


class Asked(BaseModel):
    """What every request tells of its sender."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)

    client: str = Field(min_length=1, max_length=64)


class Signed(Asked):
    """A request that enters something: once, however often it is sent."""

    reviewer: str = Field(min_length=1, max_length=80)
    ticket: str = Field(min_length=1, max_length=64)

    @property
    def who(self) -> Who:
        """Its sender."""
        return Who(self.reviewer, self.client)


class Decided(Signed):
    """An action on an item."""

    place: int
    version: int
    action: str
    label: int | None = None


class TakenBack(Signed):
    """An undo; without an entry, of the client's newest."""

    entry: int | None = None


def check_installed() -> None:
    """Say what is missing before any work is done."""
    need("fastapi", extra="review", purpose=PURPOSE)
    need("uvicorn", extra="review", purpose=PURPOSE)


def build_app(review: Review, token: str, host: str, reviewer: str) -> App:
    """The application, guarded."""
    fastapi = need("fastapi", extra="review", purpose=PURPOSE)
    responses = need("fastapi.responses", extra="review", purpose=PURPOSE)
    app = fastapi.FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    page = page_text()
    _add_routes(app, review, reviewer, responses)
    app.add_api_route("/", lambda: responses.HTMLResponse(page), methods=["GET"])

    def refused(_: Any, error: PencilError) -> Any:
        return responses.JSONResponse({"error": str(error)}, status_code=400)

    def overtaken(_: Any, error: OvertakenError) -> Any:
        return responses.JSONResponse({"overtaken": review.describe(error.entry)}, status_code=409)

    app.add_exception_handler(PencilError, refused)
    app.add_exception_handler(OvertakenError, overtaken)
    return Guarded(app, token, HostNames.of(host), policy_for(page))


def _add_routes(app: Any, review: Review, reviewer: str, responses: Any) -> None:
    def start() -> Answer:
        return {**review.start(), "reviewer": reviewer}

    def take_next(asked: Asked) -> Answer:
        return review.take_next(asked.client)

    def decide(decided: Decided) -> Answer:
        return review.decide(
            decided.who, decided.ticket, decided.place, decided.version, decided.action, decided.label
        )

    def undo(taken: TakenBack) -> Answer:
        return review.undo(taken.who, taken.ticket, taken.entry)

    def recent() -> list[Answer]:
        return review.recent()

    def image(place: int) -> Any:
        found = review.picture(place)
        return responses.Response(found or b"", 200 if found else 404, media_type="image/png")

    # In threads, for they wait for the disk; an answer is JSON already and needs no model.
    routes: dict[str, tuple[str, Callable[..., Any]]] = {
        "/api/start": ("GET", start),
        "/api/next": ("POST", take_next),
        "/api/decide": ("POST", decide),
        "/api/undo": ("POST", undo),
        "/api/recent": ("GET", recent),
        "/api/image/{place}": ("GET", image),
    }
    for path, (method, endpoint) in routes.items():
        app.add_api_route(path, endpoint, methods=[method], response_model=None)


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


def make_server(app: App) -> Any:
    """A server that says nothing of itself and ends without waiting for idle connections."""
    uvicorn = need("uvicorn", extra="review", purpose=PURPOSE)
    settings = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
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
