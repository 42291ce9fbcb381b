"""A page decides only on what it shows: the run that it was loaded from, with the same suggestions."""

import shutil

import pytest

from pencil.identity import write_identity
from pencil.results import read_decisions
from pencil.review import Review
from pencil.review.identity import identity_of
from pencil.run import RunDirectory
from support import runs

pytestmark = pytest.mark.slow

httpx = pytest.importorskip("httpx")
pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")


@pytest.fixture
def run(make_run, tmp_path):
    return make_run(tmp_path / "first", images=False)


def identity(run, **options):
    opened = Review(RunDirectory.open(run), **options)
    opened.close()
    return opened.identity


def test_it_is_the_same_after_a_restart_and_another_one_for_whatever_else_is_shown(make_run, run, tmp_path):
    same = identity(run)
    assert identity(run, goal="relabel", with_sure=True) == same  # decisions belong to a row, not to an order
    others = {
        identity(run, second_opinion=True),
        identity(make_run(tmp_path / "second", images=False)),  # the same labels in another folder
    }
    runs.make_surer(run)
    assert len({same, *others, identity(run)}) == 4


def post(server, path, **body):
    signed = {"reviewer": "Ann", "ticket": "Ann's"} if path != "next" else {}
    headers = {"Authorization": f"Bearer {server.token}"}
    return httpx.post(
        f"{server.base}/api/{path}",
        headers=headers,
        json={"client": "tab", **signed, **body},
        trust_env=False,
    )


def loaded(server):
    """The identity that a page gets, and its first item as it asks to decide on it."""
    headers = {"Authorization": f"Bearer {server.token}"}
    told = httpx.get(f"{server.base}/api/start", headers=headers, trust_env=False).json()["identity"]
    item = post(server, "next", identity=told).json()["items"][0]
    return told, [{"row": item["row"], "version": item["version"]}]


def assert_refused(server, old):
    told, items = old
    for path, more in (("next", {}), ("decide", {"items": items, "action": "accept"}), ("undo", {})):
        answer = post(server, path, identity=told, **more)
        assert answer.status_code == 409
        assert answer.json()["error"].startswith(
            "identity: the page shows another run, or labels that have changed"
        )
        assert answer.json()["identity"] == server.review.identity


def test_a_page_of_another_run_is_refused_and_nothing_recorded(make_run, run, serve_here, tmp_path):
    second = make_run(tmp_path / "second", images=False)
    old = loaded(serve_here(run))
    server = serve_here(second)
    assert_refused(server, old)
    assert list(read_decisions(second)) == []
    told, items = loaded(server)
    assert post(server, "decide", identity=told, items=items, action="accept").status_code == 200


def test_another_run_in_the_same_folder_is_another_one(run):
    before = identity_of(RunDirectory.open(run), "words")
    write_identity(run)
    assert identity_of(RunDirectory.open(run), "words") != before


def test_a_server_whose_run_was_replaced_records_nothing(run, serve_here, tmp_path):
    """Also by a copy of itself: the server would write to the file that is away."""
    server = serve_here(run)
    told, items = loaded(server)
    away = run.rename(tmp_path / "away")
    shutil.copytree(away, run)
    for path, more in (("decide", {"items": items, "action": "accept"}), ("undo", {})):
        answer = post(server, path, identity=told, **more)
        assert (answer.status_code, answer.json()["error"][:20]) == (400, "nothing was recorded")
    assert list(read_decisions(run)) == list(read_decisions(away)) == []


def test_a_suggestion_that_changed_since_is_not_accepted(run, serve_here):
    first = serve_here(run)
    old = loaded(first)
    shown = first.review.labels(old[1][0]["row"]).suggested
    runs.make_surer(run)
    again = serve_here(run)
    assert again.review.labels(old[1][0]["row"]).suggested != shown
    assert_refused(again, old)
    assert list(read_decisions(run)) == []


def test_a_restarted_server_takes_the_decision_of_the_page_before_it(run, serve_here):
    told, items = loaded(serve_here(run))
    answer = post(serve_here(run), "decide", identity=told, items=items, action="drop")
    assert answer.status_code == 200
    assert [made.row for made in read_decisions(run)] == [items[0]["row"]]
