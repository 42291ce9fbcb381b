"""Two hundred people at once, and a restart: ``pencil review`` in a process of its own."""

import contextlib
import http.client
import json
import sqlite3
import threading

import pytest

from pencil.results import read_decisions

pytestmark = pytest.mark.slow

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

CLIENTS, EACH = 200, 2
ROUTES = [("GET", "/api/start"), ("GET", "/api/recent"), ("POST", "/api/next"), ("GET", "/api/image/1")]


class Client(threading.Thread):
    """Somebody who waits for all others, then decides as often as asked."""

    def __init__(self, server, number, together):
        super().__init__()
        self.name, self.together, self.token = f"client {number}", together, server.token
        self.web = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        self.decided, self.trouble = [], None

    def run(self):
        with contextlib.closing(self.web):
            try:
                self.together.wait(120)
                item = self.ask("next", {"client": self.name})["items"][0]
                for number in range(EACH):
                    answer = self.ask("decide", self.decision(number, item))
                    self.decided.append(answer["made"][0]["id"])
                    item = answer["items"][0]
            except Exception as error:
                self.trouble = repr(error)

    def decision(self, number, item):
        who = {"client": self.name, "reviewer": self.name, "ticket": f"{self.name} {number}"}
        return {**who, "items": [{"row": item["row"], "version": item["version"]}], "action": "accept"}

    def ask(self, path, body):
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        self.web.request("POST", f"/api/{path}", json.dumps(body), headers)
        answer = self.web.getresponse()
        told = answer.read()
        assert answer.status == 200, told
        return json.loads(told)


def status(server, token, method, path):
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)) as web:
        web.request(method, path, '{"client": "c"}' if method == "POST" else None, headers)
        return web.getresponse().status


def test_two_hundred_clients_at_once_then_a_restart_and_the_old_token_is_dead(serve, make_run, tmp_path):
    run = make_run(tmp_path, rows=800, images=False)
    server = serve(run, "--port", "0", "--all")
    assert server.told["total"] == 800 > CLIENTS * (EACH + 1)
    together = threading.Barrier(CLIENTS)
    clients = [Client(server, number, together) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    assert [client.trouble for client in clients if client.trouble] == []
    decided = [row for client in clients for row in client.decided]
    assert len(set(decided)) == len(decided) == CLIENTS * EACH
    server.end()

    assert sorted(made.id for made in read_decisions(run)) == sorted(decided)
    with contextlib.closing(sqlite3.connect(run / "review.sqlite")) as history:
        entered = dict(history.execute("SELECT CAST(id AS TEXT), client FROM history").fetchall())
    assert entered == {row: client.name for client in clients for row in client.decided}

    again = serve(run, "--port", str(server.port), "--all")
    assert (again.port, again.told["decided"]) == (server.port, len(decided))
    assert again.token != server.token
    assert [status(again, server.token, *route) for route in ROUTES] == [401] * len(ROUTES)
    assert [status(again, again.token, *route) for route in ROUTES] == [200, 200, 200, 404]
