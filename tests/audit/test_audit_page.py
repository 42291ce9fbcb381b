"""An audit on the page: blind, live, and safe against a server that is killed."""

import contextlib
import signal

import pytest

from pencil.audit import AuditPage, FrozenLabels, Wanted, begin, current_audit
from pencil.audit.log import LOG
from pencil.errors import ConfigError, RunError
from pencil.identity import write_identity
from pencil.review import Review
from pencil.review.history import Who
from pencil.review.session import Session
from pencil.run import LabelTable, RunDirectory
from support import browser as browsers
from support import runs, servers
from support.review_page import Page

ANN = Who("Ann", "window 1")


def opened(run, looks=20, **wanted):
    directory = RunDirectory.open(run)
    labels = FrozenLabels.of(LabelTable.open(directory))
    known = current_audit(directory)
    audit = known or begin(directory, labels, Wanted(looks=looks, seed=5, bound="live", **wanted))
    return AuditPage(directory, audit, labels)


@pytest.fixture
def page(run):
    made: Session = opened(run.path)
    return made


def answered(page, label, action="choose", ticket=None):
    item = page.take("window 1")["items"][0]
    return page.decide(ANN, ticket or str(item["version"]), [(item["row"], item["version"])], action, label)


def test_the_page_gets_no_labels(page):
    start, taken = page.start(), page.take("window 1")
    assert start["blind"]
    (item,) = taken["items"]
    assert item["given"] is item["verdict"] is item["p_wrong"] is None
    assert sorted(label for label, _ in item["likely"]) == [0, 1, 2]
    assert all(share is None for _, share in item["likely"])
    assert page.recent() == page.disagreements() == []


def test_the_bound_follows_every_answer(page):
    seen = set()
    for number in range(22):
        item = page.audit.items[number]
        state = answered(page, page._numbers[item.suggested])
        seen.add(state["statement"])
        assert state["progress"] == {"total": 22, "decided": number + 1}
    assert state["items"] == []
    assert len(seen) >= 20
    assert "after 20 checks without an error" in state["statement"]
    with pytest.raises(ConfigError, match="not the current one"):
        page.decide(ANN, "more", [(1, 1)], "drop")


def test_an_answer_is_taken_back_and_replaced(page, run):
    first = page.take("window 1")["items"][0]
    answered(page, 0)
    back = page.undo(ANN, "back")
    assert back["items"] == [first]
    assert back["undone"][0]["id"] == "label 1"
    assert page.undo(ANN, "back")["items"] == [first]  # the same request
    assert page.undo(ANN, "further")["undone"] == []
    answered(page, None, "drop", ticket="again")
    assert current_audit(run).labels == {1: None}
    assert page.take("window 1")["items"][0]["version"] == 2


def test_repeated_and_wrong_requests(page, run):
    item = page.take("window 1")["items"][0]
    seen = [(item["row"], item["version"])]
    once, twice = (page.decide(ANN, "ticket", seen, "choose", 1) for _ in range(2))
    assert once == twice
    again = opened(run.path)  # after a restart
    assert again.decide(ANN, "ticket", seen, "choose", 1)["made"] == once["made"]
    assert len(current_audit(run).answers) == 1
    for action, label, message in (
        ("choose", 2, "not the current one"),
        ("accept", None, "unknown in an audit"),
        ("choose", 9, "is not a class"),
    ):
        with pytest.raises(ConfigError, match=message):
            again.decide(ANN, message, seen, action, label)
    outside = next(row for row in range(400) if all(item.row != row for item in page.audit.items))
    for read in (page.picture, page.text):
        with pytest.raises(ConfigError, match="is not in the sample"):
            read(outside)
        assert read(item["row"]) is None  # plain numbers


def test_the_page_knows_its_audit_again_but_no_other_one(page, run):
    answered(page, 0)
    assert opened(run.path).identity == page.identity
    other = begin(run, page._labels, Wanted(looks=20, seed=6, bound="live"))
    assert AuditPage(run, other, page._labels).identity != page.identity
    review = Review(run)
    review.close()
    assert review.identity != page.identity


def test_a_page_of_an_audit_that_another_replaced_records_nothing(page, run):
    begin(run, page._labels, Wanted(looks=20, seed=6, bound="live"))
    for ticket in ("once", "again"):
        with pytest.raises(RunError, match="nothing was recorded"):
            answered(page, 0, ticket=ticket)
    assert current_audit(run).answers == []


def test_a_page_of_a_run_that_another_replaced_records_nothing(page, run):
    before = (run.path / LOG).read_bytes()
    write_identity(run.path)
    with pytest.raises(RunError, match="another run"):
        answered(page, 0)
    assert (run.path / LOG).read_bytes() == before


def test_images_are_shown_without_their_names(tmp_path):
    page = opened(runs.run_to_review(tmp_path, rows=60), what="all")
    item = page.take("window 1")["items"][0]
    assert item["id"] == "label 1 of 22"
    assert page.picture(item["row"]).startswith(b"\x89PNG")


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("--auditor", "Ann")], ids=["nobody", "Ann"])
def test_the_page_learns_whether_the_auditor_was_named(run, words):
    httpx = pytest.importorskip("httpx")
    pytest.importorskip("fastapi")
    server = servers.Server(run.path, "--page", "--port", "0", *words, command="audit")
    with contextlib.closing(server.process.stdout), contextlib.closing(server.process.stderr):
        headers = {"Authorization": f"Bearer {server.token}"}
        told = httpx.get(f"{server.base}/api/start", headers=headers, trust_env=False).json()
        server.process.kill()
        server.process.wait()
    assert (told["reviewer"] == "Ann", told["named"]) == (bool(words), bool(words))


@pytest.mark.browser
def test_answers_by_keys_with_the_server_killed_midway(tmp_path):
    pytest.importorskip("fastapi")
    run = runs.run_to_review(tmp_path, rows=60)
    words = ("--page", "--what", "all", "--looks", "12", "--seed", "5", "--port")
    with contextlib.ExitStack() as ending:
        driver = browsers.chromium()
        ending.callback(driver.quit)
        driver.set_script_timeout(30)
        shown, server = Page(driver), servers.Server(run, *words, "0", command="audit")
        ending.callback(server.clear)
        driver.get(server.url)
        shown.ready()
        visible = driver.find_element("tag name", "body").text
        assert "pencil audit" in visible
        assert "Keep given" not in visible
        assert "suggested" not in visible
        assert "at most 100.0 % of the 60 labels after the run are wrong" in shown.text("forecast")
        for key in ("1", "2", "a", "k", "d", "3"):  # a and k do nothing
            shown.press(key)
            shown.ready()
        assert shown.text("count") == "4 / 13"
        server.end(signal.SIGKILL)
        shown.press("1")
        shown.until("document.getElementById('status').className === 'bad'")
        server = servers.Server(run, *words, str(server.port), command="audit")
        ending.callback(server.clear)
        driver.get(server.url)
        shown.until("document.getElementById('count').textContent === '5 / 13' && page.ready && !page.busy")
        shown.press("u")
        shown.ready()
        shown.press("2")
        shown.until("document.getElementById('count').textContent === '5 / 13' && page.ready && !page.busy")
        server.end(signal.SIGINT)
    kept = current_audit(RunDirectory.open(run))
    labels = [kept.labels[look] for look in range(1, 6)]
    choices = [item.choices for item in kept.items]
    assert labels == [choices[0][0], choices[1][1], None, choices[3][2], choices[4][1]]
    assert len(kept.answers) == 6
