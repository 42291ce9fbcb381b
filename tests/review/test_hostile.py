"""What nobody's browser sends: the real server answers everything with one line and a 4xx, and goes on."""

import contextlib
import http.client
import json
import socket

import pytest

from pencil.review.server import page_text

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

POSTS = ("/api/next", "/api/decide", "/api/undo")
KINDS = {
    "next": ("client",),
    "undo": ("client", "reviewer", "ticket"),
    "decide": ("client", "reviewer", "ticket"),
}
DECISION = {
    "client": "c",
    "reviewer": "A",
    "ticket": "t",
    "items": [{"row": 1, "version": 0}],
    "action": "keep",
}
NUMBERS = ("row", "version", "count", "label", "entry")
BAD_NUMBERS = (
    "NaN",
    "Infinity",
    "-Infinity",
    "1e400",
    "-1",
    "1.5",
    "true",
    "[]",
    "{}",
    '"1"',
    str(2**64),
    "9" * 4000,
)
BAD_TEXTS = (
    '"\\ud800"',
    '"\\u0000"',
    '"\\u001b[2J"',
    "NaN",
    "1",
    "null",
    "[]",
    "{}",
    '""',
    '" "',
    f'"{"x" * 500}"',
)
BODIES = {
    "nothing": b"",
    "no JSON": b"{",
    "bad UTF-8": b'{"client": "\xff\xfe"}',
    "lone surrogate as bytes": b'{"client": "\xed\xa0\x80"}',
    "UTF-16": '{"client": "\ud800"}'.encode("utf-16", "surrogatepass"),
    "4,300 digits": b'{"client": %s}' % (b"9" * 4400),
    "deep": b"[" * 60_000,
    "deep and whole": b"[" * 900 + b"]" * 900,
    "deep objects": b'{"client":' * 6000,
    "NaN": b"NaN",
    "a list": b"[]",
    "text": b'"client"',
    "unknown field of odd letters": b'{"client": "c", "\\ud800\\u0000": NaN}',
    "many unknown fields": json.dumps({str(number): number for number in range(3000)}).encode(),
    "a NUL": b"\0",
}


@pytest.fixture(scope="module")
def running(make_run, server_here, tmp_path_factory):
    server = server_here(make_run(tmp_path_factory.mktemp("hostile") / "runs", images=False))
    yield server
    server.end()


@pytest.fixture
def web(running):
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", running.port, timeout=30)) as opened:
        yield opened


def ask(running, web, method, path, body=None, **headers):
    sent = {
        "Authorization": f"Bearer {running.token}",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    if body is not None:
        sent.setdefault("Content-Type", "application/json")
    web.request(method, path, body, sent)
    answer = web.getresponse()
    return answer.status, answer.read()


def raw(running, sent):
    """Status, or None where the server hung up without a word; and the text of the answer."""
    with socket.create_connection(("127.0.0.1", running.port), timeout=30) as connection:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(sent.replace(b"TOKEN", running.token.encode()))
        with contextlib.closing(http.client.HTTPResponse(connection)) as answer:
            try:
                answer.begin()
            except (http.client.BadStatusLine, ConnectionResetError):
                return None, ""
            return answer.status, answer.read().decode()


def post(length, token="TOKEN", path="/api/next", kind="application/json"):
    """The head of a request."""
    words = f"Host: localhost\r\nAuthorization: Bearer {token}\r\nContent-Type: {kind}\r\n{length}\r\n\r\n"
    return f"POST {path} HTTP/1.1\r\n{words}".encode()


def is_one_line(body):
    told = json.loads(body)
    return set(told) == {"error"} and 0 < len(told["error"]) <= 300 and "\n" not in told["error"]


def refused(running, web, path, body, **headers):
    """The status of a refusal that is one line, after which the same connection still serves."""
    status, told = ask(running, web, "POST", path, body, **headers)
    assert 400 <= status < 500, (status, told)
    assert is_one_line(told)
    assert ask(running, web, "GET", "/api/recent") == (200, b"[]")
    return status


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_body_that_is_no_request_is_refused(running, web, path, body):
    assert refused(running, web, path, body) in (400, 422)


@pytest.mark.parametrize("field", NUMBERS)
@pytest.mark.parametrize("value", BAD_NUMBERS, ids=lambda value: value[:12])
def test_what_is_no_number_of_ours_is_refused(running, web, field, value):
    path = "/api/undo" if field == "entry" else "/api/decide"
    words = {name: DECISION[name] for name in KINDS["undo"]} if field == "entry" else dict(DECISION)
    if field in ("row", "version"):
        words["items"] = [{**DECISION["items"][0], field: "HERE"}]
    else:
        words[field] = "HERE"
    body = json.dumps(words).replace('"HERE"', value)
    assert refused(running, web, path, body.encode()) in (400, 422)


@pytest.mark.parametrize(
    "items",
    [
        [],
        {},
        [[]],
        [{"row": 1}],
        [{"row": 1, "version": 0, "id": "x"}],
        97 * [{"row": 1, "version": 0}],
        2 * [{"row": 1, "version": 0}],
    ],
    ids=["none", "an object", "a list", "no version", "more", "too many", "twice"],
)
def test_what_is_no_list_of_rows_is_refused(running, web, items):
    assert refused(running, web, "/api/decide", json.dumps({**DECISION, "items": items}).encode()) in (
        400,
        422,
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", BAD_TEXTS, ids=lambda value: value[:12])
def test_what_is_no_name_is_refused(running, web, kind, value):
    for field in KINDS[kind]:
        words = {name: DECISION[name] for name in (DECISION if kind == "decide" else KINDS[kind])}
        body = json.dumps({**words, field: "HERE"}).replace('"HERE"', value)
        assert refused(running, web, f"/api/{kind}", body.encode()) == 422


@pytest.mark.parametrize("action", ["\ud800", "\0", "", "x" * 9999, "<script>"])
def test_an_unknown_action_is_refused(running, web, action):
    assert refused(running, web, "/api/decide", json.dumps({**DECISION, "action": action}).encode()) in (
        400,
        422,
    )


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize(
    "kind",
    [
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "text/plain",
        "application/xml",
        "application/json-patch",
        "",
    ],
)
def test_other_kinds_of_bodies_are_refused_before_they_are_sent(running, path, kind):
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer TOKEN\r\nContent-Type: {kind}\r\n"
    )
    for length in ("Content-Length: 60000", "Transfer-Encoding: chunked"):
        status, told = raw(running, f"{head}{length}\r\n\r\n".encode())
        assert (status, json.loads(told)) == (415, {"error": "the body must be application/json"})


@pytest.mark.parametrize("token", ["TOKEN", "wrong"])
@pytest.mark.parametrize("length", ["65537", "300000000", "9" * 18, "0" * 30 + "99999999"])
def test_a_large_body_is_refused_before_it_is_sent(running, token, length):
    status, told = raw(running, post(f"Content-Length: {length}", token))
    assert status in (400, 413)
    assert "65,536" in told or status == 400


def test_a_large_body_in_chunks_is_refused_at_64_kilobytes(running):
    chunk = b"1000\r\n" + b" " * 4096 + b"\r\n"
    sent = post("Transfer-Encoding: chunked") + 17 * chunk  # and no end
    assert raw(running, sent) == (413, '{"error": "the body must not exceed 65,536 bytes"}')


def test_a_body_of_64_kilobytes_is_read_also_in_chunks(running, web):
    body = b'{"client": "c"}'.ljust(1 << 16)
    assert ask(running, web, "POST", "/api/next", body)[0] == 200
    pieces = (body[start : start + 4096] for start in range(0, len(body), 4096))
    assert ask(running, web, "POST", "/api/next", pieces)[0] == 200


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.0\r\n\r\n", 421),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", 400),
        (b"GET / HTTP/1.0\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost.\r\n\r\n", 421),
        (b"GET / HTTP/1.1\r\nHost: [::ffff:127.0.0.1]\r\n\r\n", 421),
        (b"GET / HTTP/1.1\r\nHost: \r\n\r\n", 421),
        (b"GET http://localhost/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (
            b"GET http://evil.example/api/start HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer TOKEN\r\n\r\n",
            400,
        ),
        (b"GET localhost HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer TOKEN\r\n\r\n", 400),
        (b"GET //api/start HTTP/1.1\r\nHost: localhost\r\n\r\n", 401),
        (b"GET /%2e%2e/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 401),
        (b"GET /api/start HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \xff\xfe\r\n\r\n", 401),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (b"\r\n\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 70_000, 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n", 400),
        (
            b"POST /api/next HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
            400,
        ),
    ],
    ids=lambda value: value[:60] if isinstance(value, bytes) else "",
)
def test_odd_http_is_refused(running, web, sent, status, capfd):
    assert raw(running, sent)[0] == status
    assert ask(running, web, "GET", "/api/recent")[0] == 200
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize(
    "origin", ["null", "http://localhost:9999", "http://127.0.0.1", "http://evil.example", "", "file://"]
)
def test_a_page_of_another_origin_gets_nothing_even_with_the_token(running, web, path, origin):
    body = json.dumps(DECISION if path == "/api/decide" else {"client": "c"}).encode()
    assert refused(running, web, path, body, Origin=origin) == 403
    assert ask(running, web, "POST", "/api/next", b'{"client": "c"}', Origin=running.base)[0] == 200


@pytest.mark.parametrize("path", ["/", "/api/start", "/api/next", "/ws"])
def test_a_websocket_without_the_token_never_opens(running, path, capfd):
    upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    key = "Sec-WebSocket-Key: MTIzNDU2Nzg5MDEyMzQ1Ng=="
    status, told = raw(running, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{upgrade}{key}\r\n\r\n".encode())
    assert status == (200 if path == "/" else 401)
    assert path != "/" or told == page_text()  # which anybody may have
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "asked",
    [
        "../runs-secret/secret.png",
        "..%2fruns-secret%2fsecret.png",
        "../../runs-secret/secret.png",
        "%2e%2e/%2e%2e/runs-secret/secret.png",
        "..%5c..%5cruns-secret%5csecret.png",
        "link.png",
        "1/../../../runs-secret/secret.png",
        "/etc/passwd",
        "file:///etc/passwd",
        "C:%5csecret.png",
        "1e3",
        "0x1",
        "1.5",
        "-1",
        "9" * 5000,
        str(2**63),
        "NaN",
        "%00",
        "%ff",
        "1%00.png",
    ],
    ids=lambda value: value[:30],
)
def test_an_image_is_asked_for_by_a_number_and_nothing_else(running, web, asked):
    runs = running.review.directory.path.parent
    secret = runs.with_name("runs-secret") / "secret.png"
    secret.parent.mkdir(exist_ok=True)
    secret.write_bytes(b"the secret")
    link = running.review.directory.path / "link.png"
    if not link.is_symlink():
        link.symlink_to(secret)
    status, told = ask(running, web, "GET", f"/api/image/{asked}")
    assert 400 <= status < 500
    assert b"secret" not in told
    assert is_one_line(told)


def images_of(server, rows):
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)) as web:
        return [ask(server, web, "GET", f"/api/image/{row}") for row in range(rows)]


def test_an_image_outside_the_data_is_shown_only_where_that_is_allowed(
    make_run, serve_here, tmp_path, monkeypatch
):
    """The data lies in ``runs``, its images in ``runs-secret``: the same first letters are not the same folder."""
    pytest.importorskip("PIL")
    (tmp_path / "runs-secret").mkdir()
    run = make_run(tmp_path / "runs", rows=3, ids=[f"../runs-secret/{row}.png" for row in range(3)])
    server = serve_here(run, with_sure=True)
    assert "is outside" in server.review.trouble
    assert [status for status, _ in images_of(server, 3)] == [404] * 3
    monkeypatch.setenv("PENCIL_ALLOW", str(tmp_path / "runs-secret"))
    assert [status for status, _ in images_of(serve_here(run, with_sure=True), 3)] == [200] * 3


def test_a_link_to_what_is_no_image_shows_nothing_of_it(make_run, serve_here, tmp_path):
    pytest.importorskip("PIL")
    run, secret = make_run(tmp_path / "runs", rows=3), tmp_path / "runs-secret"
    secret.write_text("the secret")
    for row in range(3):
        (tmp_path / "runs" / f"row {row}").unlink()
        (tmp_path / "runs" / f"row {row}").symlink_to(secret)
    for status, told in images_of(serve_here(run, with_sure=True), 3):
        assert 400 <= status < 500
        assert is_one_line(told)
        assert b"the secret" not in told
