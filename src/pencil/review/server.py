"""The review's HTTP server: one page, and a JSON interface that requires a token."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import signal
import socket
from collections.abc import Callable, Mapping
from importlib import resources
from typing import Any

from pencil.errors import ConfigError, PencilError
from pencil.imports import need
from pencil.review.access import App, Guarded, HostNames
from pencil.review.connection import LIMITS, PURPOSE, Limits, protocol
from pencil.review.history import OvertakenError, TicketError
from pencil.review.identity import OtherRunError, check_identity
from pencil.review.items import Seen
from pencil.review.requests import Asked, Decided, Number, TakenBack
from pencil.review.session import Session

PORT = 8642
GRACE_SECONDS = 2
LONGEST_ERROR = 300
THUMBNAIL = 256  # pixels
PARTS = {"style": ("page.css",), "script": ("page.js", "show.js", "choose.js", "grid.js")}
"""The files that are inserted into the page, by element."""


Routes = dict[str, tuple[str, Callable[..., Any]]]
"""Method and endpoint by path."""


def check_installed() -> None:
    """Raise an error if a required package is missing."""
    need("fastapi", extra="review", purpose=PURPOSE)
    need("uvicorn", extra="review", purpose=PURPOSE)


def build_app(
    review: Session, token: str, host: str, reviewer: str, limits: Limits = LIMITS, *, named: bool = False
) -> App:
    """Return the ASGI application with its access checks.

    Args:
        review: What the page shows.
        token: What every request for data must know.
        host: The address that the server listens on.
        reviewer: Whose name the page begins with.
        limits: Of a connection.
        named: Whether the user gave that name, so that it comes before one that the browser remembers.
    """
    fastapi = need("fastapi", extra="review", purpose=PURPOSE)
    app = fastapi.FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    responses = need("fastapi.responses", extra="review", purpose=PURPOSE)
    page = page_text()
    _add_routes(app, review, {"reviewer": reviewer, "named": named}, responses)
    app.add_api_route("/", lambda: responses.HTMLResponse(page), methods=["GET"])
    _add_refusals(app, review, responses)
    return Guarded(app, token, HostNames.of(host), policy_for(page), limits)


def _answer(responses: Any, content: Any, status: int = 200) -> Any:
    """A JSON response in ASCII, because file and class names may contain invalid text."""
    body = json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")
    return responses.Response(body, status, media_type="application/json")


def _image(responses: Any, row: int, found: bytes | None) -> Any:
    if found is None:
        return _answer(responses, {"error": f"row {row} has no image"}, 404)
    return responses.Response(found, media_type="image/png")


def _text(responses: Any, row: int, found: str | None) -> Any:
    if found is None:
        return _answer(responses, {"error": f"row {row} has no text"}, 404)
    return _answer(responses, {"text": found})


def _originals(review: Session, responses: Any) -> Routes:
    def image(row: Number) -> Any:
        return _image(responses, row, review.picture(row))

    def thumbnail(row: Number) -> Any:
        return _image(responses, row, review.picture(row, THUMBNAIL))

    def text(row: Number) -> Any:
        return _text(responses, row, review.text(row))

    def references(label: Number) -> Any:
        return _answer(responses, {"rows": review.references(label)})

    return {
        "/api/references/{label}": ("GET", references),
        "/api/image/{row}": ("GET", image),
        "/api/thumbnail/{row}": ("GET", thumbnail),
        "/api/text/{row}": ("GET", text),
    }


def _add_routes(app: Any, review: Session, begun_by: Mapping[str, Any], responses: Any) -> None:
    def start() -> Any:
        return _answer(responses, {**review.start(), "identity": review.identity, **begun_by})

    def take_next(asked: Asked) -> Any:
        check_identity(review, asked.identity)
        return _answer(responses, review.take(asked.client, asked.count))

    def decide(decided: Decided) -> Any:
        check_identity(review, decided.identity)
        seen = [Seen(each.row, each.version) for each in decided.items]
        made = review.decide(decided.who, decided.ticket, seen, decided.action, decided.label, decided.count)
        return _answer(responses, made)

    def undo(taken: TakenBack) -> Any:
        check_identity(review, taken.identity)
        return _answer(responses, review.undo(taken.who, taken.ticket, taken.entry, taken.count))

    def recent() -> Any:
        return _answer(responses, review.recent())

    def disagreements() -> Any:
        return _answer(responses, review.disagreements())

    # In threads, because they wait for the disk.
    routes: Routes = {
        "/api/start": ("GET", start),
        "/api/next": ("POST", take_next),
        "/api/decide": ("POST", decide),
        "/api/undo": ("POST", undo),
        "/api/recent": ("GET", recent),
        "/api/disagreements": ("GET", disagreements),
        **_originals(review, responses),
    }
    for path, (method, endpoint) in routes.items():
        app.add_api_route(path, endpoint, methods=[method], response_model=None)


def _add_refusals(app: Any, review: Session, responses: Any) -> None:
    """Turn every error into one line that repeats little of the request."""
    exceptions = need("starlette.exceptions", extra="review", purpose=PURPOSE)
    invalid = need("fastapi.exceptions", extra="review", purpose=PURPOSE).RequestValidationError

    def refuse(status: int, error: object, **more: Any) -> Any:
        return _answer(responses, {"error": str(error)[:LONGEST_ERROR], **more}, status)

    async def refused(_: Any, error: PencilError) -> Any:
        return refuse(409 if isinstance(error, TicketError) else 400, error)

    async def overtaken(_: Any, error: OvertakenError) -> Any:
        return refuse(409, error, overtaken=review.describe(error.entry))

    async def elsewhere(_: Any, error: OtherRunError) -> Any:
        return refuse(409, error, identity=review.identity)

    async def mistaken(_: Any, error: Any) -> Any:
        first = error.errors()[0]
        return refuse(422, f"{'.'.join(map(str, first['loc'][1:])) or 'body'}: {first['msg']}")

    async def unknown(_: Any, error: Any) -> Any:
        return refuse(error.status_code, error.detail)

    for kind, handler in {
        PencilError: refused,
        OvertakenError: overtaken,
        OtherRunError: elsewhere,
        invalid: mistaken,
        exceptions.HTTPException: unknown,
    }.items():
        app.add_exception_handler(kind, handler)


def page_text() -> str:
    """The self-contained HTML page, with its style and script inserted."""
    folder = resources.files("pencil.review") / "page"
    page = folder.joinpath("page.html").read_text(encoding="utf-8")
    for tag, names in PARTS.items():
        content = "".join(folder.joinpath(name).read_text(encoding="utf-8") for name in names)
        page = page.replace(f"<{tag}></{tag}>", f"<{tag}>\n{content}</{tag}>")
    return page


def policy_for(page: str) -> str:
    """A Content-Security-Policy that allows this page's own script and style only."""
    script, style = (_hash_of(page, tag) for tag in ("script", "style"))
    return (
        f"default-src 'none'; script-src '{script}'; style-src '{style}'; img-src blob: data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _hash_of(page: str, tag: str) -> str:
    (content,) = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def listen(host: str, port: int | None) -> socket.socket:
    """Open a listening socket; without a port, use the default port, or a free one if it is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Declared as TCP: otherwise asyncio keeps Nagle's algorithm on, and every response waits 40 ms for an ACK.
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
            f"--host {host} --port {port}: cannot listen ({error.strerror or error}); "
            "leave out --port to use a free one"
        ) from error
    return listening


def address(listening: socket.socket, token: str) -> str:
    """The address to open in a browser. The token follows the #, a part that browsers do not send."""
    host, port = listening.getsockname()[:2]
    shown = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)  # noqa: S104
    return f"http://{f'[{shown}]' if ':' in shown else shown}:{port}/#{token}"


def make_server(app: App, limits: Limits = LIMITS) -> Any:
    """Return a uvicorn server without banner and access log that stops without waiting for idle connections."""
    uvicorn = need("uvicorn", extra="review", purpose=PURPOSE)
    settings = uvicorn.Config(
        app,
        http=protocol(limits),
        log_level="error",  # errors of a client are reported to the client
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        timeout_keep_alive=limits.request_seconds,
        ws="none",
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    return uvicorn.Server(settings)


def serve(app: App, listening: socket.socket, stop: Callable[[], object] = lambda: None) -> None:
    """Serve until Ctrl-C or SIGTERM; then ``stop`` ends requests that would keep the server waiting."""
    server = make_server(app)
    end = server.handle_exit
    server.handle_exit = lambda *signaled: (stop(), end(*signaled))
    # uvicorn shuts down and then raises the signal again.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        server.run(sockets=[listening])
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)
