"""The real server on loopback: access, two people at once, SIGKILL, Ctrl-C."""

import contextlib
import io
import signal
import socket
import sqlite3
import threading
import time

import pytest

from pencil.cli.main import cli
from pencil.errors import ConfigError, RunError
from pencil.results import read_decisions
from pencil.review.server import page_text, policy_for
from support.servers import show_texts

pytestmark = pytest.mark.slow

httpx = pytest.importorskip("httpx")
pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

ROUTES = [
    ("GET", "/api/start"),
    ("POST", "/api/next"),
    ("POST", "/api/decide"),
    ("POST", "/api/undo"),
    ("GET", "/api/recent"),
    ("GET", "/api/image/1"),
    ("GET", "/api/disagreements"),
    ("GET", "/api/thumbnail/1"),
    ("GET", "/api/text/1"),
    ("GET", "/api/references/1"),
    ("GET", "/docs"),
    ("GET", "/openapi.json"),
    ("GET", "/anything"),
]


class Person:
    """Somebody with a window of their own."""

    def __init__(self, server, name):
        self.name, self.count = name, 0
        self.web = httpx.Client(
            base_url=server.base, headers={"Authorization": f"Bearer {server.token}"}, trust_env=False
        )

    def post(self, path, **body):
        self.count += 1
        signed = {"reviewer": self.name, "ticket": f"{self.name} {self.count}"} if path != "next" else {}
        return self.web.post(f"/api/{path}", json={"client": self.name, **signed, **body})

    def next(self):
        return self.post("next").json()["items"][0]

    def decide(self, item, action, **more):
        return self.decide_all([item], action, **more)

    def decide_all(self, items, action, **more):
        seen = [{"row": item["row"], "version": item["version"]} for item in items]
        return self.post("decide", items=seen, action=action, **more)


@pytest.fixture(scope="module")
def pictured(make_run, tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("pictured"))


@pytest.fixture(scope="module")
def running(pictured, server_here):
    """One server for the tests that leave nothing behind."""
    server = server_here(pictured)
    yield server
    server.end()


@pytest.fixture
def run(make_run, tmp_path):
    return make_run(tmp_path, images=False)


@pytest.fixture
def people():
    made = []

    def make(server, name):
        made.append(Person(server, name))
        return made[-1]

    yield make
    for person in made:
        person.web.close()


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer wrong", "token"])
def test_nothing_is_told_without_the_token(running, method, path, header):
    header = running.token if header == "token" else header  # without its scheme
    headers = {} if header is None else {"Authorization": header}
    answer = httpx.request(method, running.base + path, headers=headers, trust_env=False)
    assert answer.status_code == 401
    assert "open the address that pencil review printed" in answer.json()["error"]


def test_the_page_needs_no_token_and_holds_nothing_of_the_run(running):
    answer = httpx.get(running.base + "/", trust_env=False)
    assert answer.status_code == 200
    assert answer.text == page_text()
    assert answer.headers["content-security-policy"] == policy_for(page_text())
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in answer.headers
    assert "http://" not in answer.text.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in answer.text


@pytest.mark.parametrize("path", ["/", "/api/start"])
def test_another_name_for_this_server_is_refused_even_with_the_token(running, path):
    headers = {"Authorization": f"Bearer {running.token}", "Host": f"evil.example:{running.port}"}
    assert httpx.get(running.base + path, headers=headers, trust_env=False).status_code == 421


def test_it_listens_on_this_machine_only(running):
    others = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for host in {"127.0.0.2", *others} - {
        "127.0.0.1"
    }:  # all of 127/8 is this machine, so 127.0.0.2 is always there
        with pytest.raises(OSError, match="refused"):
            socket.create_connection((host, running.port), timeout=5).close()


def test_a_page_from_elsewhere_gets_no_leave(running):
    headers = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    answer = httpx.options(running.base + "/api/decide", headers=headers, trust_env=False)
    assert answer.status_code == 403
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_the_image_is_the_rows_own(running, people):
    image = pytest.importorskip("PIL.Image")
    ann = people(running, "Ann")
    about, item = ann.web.get("/api/start").json(), ann.next()
    assert about["images"] is True
    assert about["classes"] == [f"class {number}" for number in range(4)]
    answer = ann.web.get(f"/api/image/{item['row']}")
    assert answer.headers["content-type"] == "image/png"
    with image.open(running.review.directory.path.parent / f"row {item['row']}") as pixels:
        assert image.open(io.BytesIO(answer.content)).tobytes() == pixels.tobytes()


def test_images_have_no_text_and_texts_no_image(running, people, serve_here, run):
    ann, server = people(running, "Ann"), serve_here(run)
    row = ann.next()["row"]
    refused = ann.web.get(f"/api/text/{row}")
    assert (refused.status_code, refused.json()["error"]) == (404, f"row {row} has no text")
    show_texts(server.review, 60)
    bob = people(server, "Bob")
    about, item = bob.web.get("/api/start").json(), bob.next()
    assert (about["images"], about["texts"]) == (False, True)
    told = bob.web.get(f"/api/text/{item['row']}")
    assert told.json() == {"text": f"<img src=x onerror=alert(1)> note {item['row']}"}
    assert told.headers["content-type"] == "application/json"
    assert bob.web.get(f"/api/image/{item['row']}").status_code == 404


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (
            {
                "client": "x",
                "reviewer": "A",
                "ticket": "t",
                "items": [{"row": 1, "version": 0}],
                "action": "burn",
            },
            400,
        ),
        (
            {
                "client": "x",
                "reviewer": "A",
                "ticket": "t",
                "items": [{"row": 10**6, "version": 0}],
                "action": "keep",
            },
            400,
        ),
        (
            {
                "client": "x",
                "reviewer": " ",
                "ticket": "t",
                "items": [{"row": 1, "version": 0}],
                "action": "keep",
            },
            422,
        ),
        ({"client": "x", "reviewer": "A", "ticket": "t", "items": [{"row": 1, "version": 0}]}, 422),
        ({"client": "x"}, 422),
    ],
)
def test_mistakes_are_refused(running, people, body, status):
    ann = people(running, "Ann")
    assert ann.web.post("/api/decide", json=body).status_code == status
    assert ann.web.get("/api/recent").json() == []


def test_two_people_never_overwrite_each_other(serve_here, people, run):
    server = serve_here(run, lease_seconds=0.001)
    ann, bob = people(server, "Ann"), people(server, "Bob")
    item = ann.next()
    assert bob.next() == item  # the lease is over already
    assert bob.decide(item, "drop").status_code == 200
    refused = ann.decide(item, "keep")
    assert refused.status_code == 409
    theirs = refused.json()["overtaken"]
    assert (theirs["reviewer"], theirs["action"], theirs["id"]) == ("Bob", "dropped", item["id"])
    assert [(made.id, made.decision) for made in read_decisions(run)] == [(item["id"], "dropped")]


def test_anothers_ticket_is_refused_and_tells_nothing(serve_here, people, run):
    server = serve_here(run)
    ann, bob = people(server, "Ann"), people(server, "Bob")
    item = ann.next()
    made = ann.decide(item, "drop", ticket="Ann's").json()["made"][0]
    told = [
        bob.decide(item, "drop", ticket="Ann's"),
        bob.decide(bob.next(), "drop", ticket="Ann's"),
        bob.post("undo", ticket="Ann's"),
        bob.post("undo", ticket="Ann's", entry=made["entry"]),
    ]
    for answer in told:
        assert (answer.status_code, list(answer.json())) == (409, ["error"])
        assert item["id"] not in answer.text
        assert answer.json()["error"].startswith("ticket: already used")
    again = ann.decide(item, "drop", ticket="Ann's")
    assert (again.status_code, again.json()["made"][0]) == (200, made)
    assert len(list(read_decisions(run))) == 1


def test_two_people_at_once_share_the_queue_without_meeting(serve_here, people, run):
    server = serve_here(run)
    results, both = {}, threading.Barrier(2)

    def work(person):
        answer, done = person.post("next").json(), []
        both.wait(60)  # each has an item before one of them can have done them all
        while answer["items"] != []:
            done.append(answer["items"][0]["id"])
            answer = person.decide(answer["items"][0], "accept").json()
        results[person.name] = done

    workers = [threading.Thread(target=work, args=(people(server, name),)) for name in ("Ann", "Bob")]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert results["Ann"]
    assert results["Bob"]
    together = results["Ann"] + results["Bob"]
    assert len(set(together)) == len(together) == server.review.progress()["total"]
    assert sorted(made.id for made in read_decisions(run)) == sorted(together)


def test_two_servers_share_one_review(serve_here, people, run):
    ann, bob = people(serve_here(run), "Ann"), people(serve_here(run), "Bob")
    mine, theirs = ann.next(), bob.next()
    third = ann.decide(mine, "accept").json()["items"][0]
    assert len({item["row"] for item in (mine, theirs, third)}) == 3
    assert bob.decide(mine, "keep").status_code == 409


def test_what_was_answered_is_there_after_sigkill(serve, people, make_run, tmp_path):
    run, answered = make_run(tmp_path, rows=2000, images=False), []  # more than can be done before the kill

    def kill_after(server, count):
        while len(answered) < count:
            time.sleep(0.001)
        server.process.kill()  # while the next decision is on its way

    server = serve(run, "--port", "0", "--all")
    person = people(server, "Ann")
    answer = person.post("next").json()
    killer = threading.Thread(target=kill_after, args=(server, 15))
    killer.start()
    with contextlib.suppress(httpx.TransportError):
        while answer["items"]:
            answer = person.decide(answer["items"][0], "accept").raise_for_status().json()
            answered.append(answer["made"][0]["id"])
    killer.join()
    server.process.wait()
    assert answer["items"] != []  # there was more to do
    kept = [made.id for made in read_decisions(run)]
    assert set(answered) <= set(kept)
    assert len(set(kept)) == len(kept) <= len(answered) + 1  # and perhaps the one left unanswered


def test_decisions_on_many_rows_are_complete_after_sigkill(serve, people, make_run, tmp_path):
    run, answered = make_run(tmp_path, rows=4000, images=False), []
    server = serve(run, "--port", "0", "--all")
    person = people(server, "Ann")
    answer = person.post("next", count=8).json()

    def kill():
        while len(answered) < 12:
            time.sleep(0.001)
        server.process.kill()  # while the next request is on its way

    killer = threading.Thread(target=kill)
    killer.start()
    with contextlib.suppress(httpx.TransportError):
        while answer["items"]:
            answer = person.decide_all(answer["items"], "drop", count=8).raise_for_status().json()
            answered.append({made["id"] for made in answer["made"]})
    killer.join()
    server.process.wait()
    assert answer["items"]  # there was more to do
    kept = {made.id for made in read_decisions(run)}
    assert set().union(*answered) <= kept
    assert len(kept) in (8 * len(answered), 8 * len(answered) + 8)  # the unanswered one is complete or absent


def test_the_command_tells_what_to_expect(serve, run):
    told = serve(run, "--port", "0", "--goal", "relabel", "--stop-below", "2").told
    assert told["goal"] == "relabel"
    assert told["forecast"]["expected"] > 2 == told["forecast"]["stop_below"]
    assert 0 < told["looks_until_stop"] <= told["total"]
    assert told["agreement"] is None
    again = serve(run, "--port", "0", "--second-opinion").told
    assert (again["total"], again["forecast"], again["agreement"]["both"]) == (0, None, 0)


def test_the_browser_gets_the_address_in_a_private_file(serve, run, tmp_path, monkeypatch):
    browser = tmp_path / "browser"
    browser.write_text(
        '#!/bin/sh\ncp -p "${1#file://}" "$0.page.partial" && mv "$0.page.partial" "$0.page"\n'
    )
    browser.chmod(0o700)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    server = serve(run, "--port", "0", "--open")
    page = tmp_path / "browser.page"
    while not page.exists():  # the server ends the test by its time-out if it never opens one
        time.sleep(0.01)
    assert server.url in page.read_text()
    assert page.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("number", "words"),
    [(signal.SIGINT, ("--host", "0.0.0.0", "--allow-remote")), (signal.SIGTERM, ())],
    ids=["Ctrl-C, reachable by others", "SIGTERM"],
)
def test_a_signal_ends_it_in_order(serve, people, run, number, words):
    server = serve(run, "--port", "0", *words)
    server.base = f"http://127.0.0.1:{server.port}"
    assert httpx.get(f"{server.base}/api/start", trust_env=False).status_code == 401
    ann = people(server, "Ann")
    assert ann.decide(ann.next(), "accept").status_code == 200
    code, said = server.end(number)
    assert code == 0
    assert "1 decided; next: pencil labels" in said
    assert ("warning: --host 0.0.0.0: others on the network" in said) is bool(words)
    assert "Traceback" not in said
    assert not (run / "review.sqlite-wal").exists()


def test_ctrl_c_ends_it_while_queries_run_that_never_end(serve, people, run):
    """A trigger that came into the file while the server ran."""
    server = serve(run, "--port", "0")
    ann = people(server, "Ann")
    assert ann.decide(ann.next(), "accept").status_code == 200
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT COUNT(*) FROM n"
    with contextlib.closing(sqlite3.connect(run / "review.sqlite")) as stranger:
        stranger.execute(f"CREATE TRIGGER wait AFTER INSERT ON leases BEGIN {endless}; END")
    asking = [threading.Thread(target=wait_in_vain, args=(server, name)) for name in "ab"]
    for each in asking:
        each.start()
    time.sleep(1)
    code, said = server.end(signal.SIGINT)
    for each in asking:
        each.join()
    assert code == 0
    assert "1 decided" in said
    assert "Traceback" not in said


def wait_in_vain(server, client):
    headers = {"Authorization": f"Bearer {server.token}"}
    with contextlib.suppress(httpx.HTTPError):
        httpx.post(
            f"{server.base}/api/next", headers=headers, json={"client": client}, timeout=60, trust_env=False
        )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--host", "0.0.0.0"], "--host 0.0.0.0: the review would be reachable from the network"),
        (["--host", "203.0.113.5", "--allow-remote"], "cannot listen"),
        (["--port", "taken"], "cannot listen"),
        (["--second-opinion", "--goal", "clean"], "--second-opinion and --goal: .*; leave out --goal$"),
        (
            ["--second-opinion", "--stop-below", "5"],
            "--second-opinion and --stop-below: .*; leave out --stop-below$",
        ),
        (["--second-opinion", "--all", "--goal", "clean"], "--second-opinion and --goal and --all: "),
        (
            ["--goal", "duplicates", "--all"],
            "--goal duplicates and --all cannot be combined: .*; leave out --all, or use another goal$",
        ),
    ],
)
def test_mistakes_are_named_before_anything_is_served(running, run, words, message):
    words = [str(running.port) if word == "taken" else word for word in words]
    with pytest.raises(ConfigError, match=message):
        cli(["review", str(run), "--port", "0", *words], standalone_mode=False)
    assert not (run / "review.sqlite").exists()


def test_a_run_that_is_not_finished_is_refused(run):
    (run / "summary.json").unlink()
    with pytest.raises(RunError, match="is not finished; continue it with: pencil resume"):
        cli(["review", str(run), "--port", "0"], standalone_mode=False)


def test_texts_named_on_the_command_line_are_shown_and_their_matches_counted(
    serve, people, make_run, tmp_path
):
    run = make_run(tmp_path / "features", images=False)
    (tmp_path / "texts.jsonl").write_text(
        "".join(f'{{"id": "row {row}", "text": "<b>{row}"}}\n' for row in range(60))
    )
    server = serve(run, "--port", "0", "--texts", str(tmp_path / "texts.jsonl"))
    ann = people(server, "Ann")
    assert ann.web.get("/api/start").json()["texts"]
    assert ann.web.get("/api/text/7").json() == {"text": "<b>7"}
    assert ann.web.get("/api/references/0").json()["rows"]
    refused = ann.web.get("/api/references/99")
    assert (refused.status_code, refused.json()["error"]) == (400, "label: 99 is not a class; use 0 to 3")
    code, said = server.end(signal.SIGINT)
    assert code == 0
    assert f"--texts {tmp_path / 'texts.jsonl'}: 60 of 60 rows match by id" in said
