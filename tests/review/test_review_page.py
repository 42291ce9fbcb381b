"""The page in a real browser, by keys alone; its server is killed on the way."""

import sqlite3
from collections import Counter

import pytest

from pencil.results import read_decisions
from support.review_page import Page
from support.servers import show_texts

webdriver = pytest.importorskip("selenium.webdriver")
pytestmark = pytest.mark.browser
pytest.importorskip("fastapi")

ROWS, CLASSES = 180, 6
DECISIONS = 100
ACTIONS = {"a": "accept", "k": "keep", "d": "drop", "2": "second", "5": "fifth", "\ue007": "accept"}
UNREACHABLE = ("net::ERR_", "status of 401")  # no server, then one with another token


def label_of(item, action):
    """What an action means, in the words of the manual."""
    likely = [label for label, _ in item["likely"]]
    return {"accept": likely[0], "keep": item["given"], "second": likely[1], "fifth": likely[4]}.get(action)


def test_a_hundred_decisions_by_keys_with_the_server_killed_midway(browser, serve, make_run, tmp_path):
    run = make_run(tmp_path, rows=ROWS, classes=CLASSES)
    server, page = serve(run, "--port", "0"), Page(browser)
    browser.get(server.url)
    page.ready()
    assert server.token not in browser.current_url
    assert page.browser.execute_script("return document.getElementById('image').naturalWidth") == 8
    wanted, keys = {}, list(ACTIONS)
    for number in range(DECISIONS):
        key = keys[number % len(keys)]
        if number == DECISIONS // 2:
            assert page.complaints() == []
            server.process.kill()
            server.process.wait()
            item = page.item
            page.press(key)  # while nobody listens
            page.until("document.getElementById('status').className === 'bad'")
            server = serve(run, "--port", str(server.port))
            browser.get(server.url)  # a new token in the same tab
            page.until(f"page.item.row !== {item['row']} && page.ready && !page.busy")
        else:
            item = page.decide(key)
        wanted[item["row"]] = label_of(item, ACTIONS[key])
    assert len(wanted) == DECISIONS
    assert page.text("count") == f"{DECISIONS} / {server.told['total']}"
    assert [line for line in page.complaints() if not any(word in line for word in UNREACHABLE)] == []
    server.end()
    assert {made.row: made.label for made in read_decisions(run)} == wanted
    with sqlite3.connect(run / "review.sqlite") as history:
        entries = history.execute("SELECT row, action FROM history").fetchall()
    history.close()
    assert max(Counter(row for row, _ in entries).values()) == 1
    assert len(entries) == DECISIONS


def test_texts_are_shown_as_texts_and_never_as_html(browser, serve_here, make_run, tmp_path):
    server, page = serve_here(make_run(tmp_path, images=False)), Page(browser)
    show_texts(server.review, 60)
    browser.get(f"{server.base}/#{server.token}")
    page.ready()
    assert page.text("words") == f"<img src=x onerror=alert(1)> note {page.item['row']}"
    assert page.browser.execute_script("return document.querySelectorAll('#words *').length") == 0
    page.decide("k")
    page.ready()
    assert page.text("words").endswith(f"note {page.item['row']}")
    assert page.complaints() == []


def test_search_skip_undo_and_what_somebody_else_did(browser, serve_here, make_run, tmp_path):
    server, page = serve_here(make_run(tmp_path, classes=12, images=False)), Page(browser)
    browser.get(f"{server.base}/#{server.token}")
    page.ready()
    first = page.item
    page.press("/")
    page.press("11")
    page.until("document.getElementById('found').children.length === 1")
    page.decide("\ue007")  # Enter, in the search box
    assert page.text("status") == f"{first['id']}: changed to class 11"
    second = page.decide("s")
    assert page.text("count").startswith("1 /")
    page.press("u")
    page.until(f"page.item.row === {second['row']} && !page.busy")
    webdriver.ActionChains(browser).key_down("\ue009").send_keys("z").key_up("\ue009").perform()
    page.until(f"page.item.row === {first['row']} && !page.busy")
    assert page.text("count").startswith("0 /")
    assert page.complaints() == []

    from pencil.review.history import Who

    item = page.item
    server.review.decide(Who("Bob", "other window"), "t", [(item["row"], item["version"])], "drop")
    page.decide("k")
    assert (
        page.text("status")
        == f"Bob has already decided on {item['id']}: dropped. Your decision was not recorded."
    )
    assert server.review.progress()["decided"] == 1
    assert all("status of 409" in line for line in page.complaints())
    browser.find_element("css selector", "#recent summary").click()
    page.until("document.querySelectorAll('#entries button').length === 1")
    browser.find_element("css selector", "#entries button").click()  # anybody's decision, on purpose
    page.until(f"page.item.row === {item['row']} && !page.busy")
    assert server.review.progress()["decided"] == 0
    assert page.complaints() == []


def test_without_a_token_the_page_asks_for_it(browser, serve_here, make_run, tmp_path):
    server, page = serve_here(make_run(tmp_path, images=False)), Page(browser)
    browser.get(server.base)
    page.until("!document.getElementById('token').hidden")
    assert page.item is None
    page.press(server.token, "\ue007")
    page.ready()
    item = page.item
    browser.refresh()  # the tab remembers it, and the item it holds
    page.ready()
    assert page.item == item
    assert page.complaints() == []


def test_a_token_that_arrives_while_the_old_one_is_refused_is_taken(browser, serve_here, make_run, tmp_path):
    server, page = serve_here(make_run(tmp_path, images=False)), Page(browser)
    browser.get(f"{server.base}/#{server.token}")
    page.ready()
    browser.execute_script(
        """
        const fetch = window.fetch;
        window.fetch = async (...words) => {
          const answer = await fetch(...words);
          if (answer.status === 401) {
            window.refused = true;
            await new Promise((release) => { window.release = release; });
          }
          return answer;
        };
        page.token = "one of a server that is gone";
        """
    )
    first = page.item
    page.press("k")
    page.until("window.refused")
    browser.get(f"{server.base}/#{server.token}")
    page.until(f"page.token === '{server.token}'")
    browser.execute_script("window.release()")
    page.until(f"page.item.row !== {first['row']} && page.ready && !page.busy")
    assert server.review.progress()["decided"] == 1
    assert all("status of 401" in line for line in page.complaints())


def wait_for_a_new_page(browser):
    """Ask again and again: a script that waits in the page ends with it."""
    ready = "return typeof page === 'object' && !page.old && page.ready && !page.busy"
    errors = pytest.importorskip("selenium.common.exceptions")
    waiting = pytest.importorskip("selenium.webdriver.support.wait")
    waiting.WebDriverWait(browser, 30, 0.05, [errors.WebDriverException]).until(
        lambda driver: driver.execute_script(ready)
    )


@pytest.mark.parametrize("waiting", [False, True], ids=["an item on the screen", "a decision on its way"])
def test_a_new_address_in_the_tab_shows_its_own_run(browser, serve, make_run, tmp_path, waiting):
    runs = [make_run(tmp_path / name, images=False) for name in ("first", "second")]
    server, page = serve(runs[0], "--port", "0"), Page(browser)
    browser.get(server.url)
    page.ready()
    server.end()
    browser.execute_script("page.old = true")
    if waiting:
        page.press("d")
        page.until("document.getElementById('status').className === 'bad'")
    server = serve(runs[1], "--port", str(server.port))
    browser.get(server.url)
    wait_for_a_new_page(browser)
    assert page.text("status").startswith("The page now shows another run, or changed labels.")
    assert [list(read_decisions(run)) for run in runs] == [[], []]
    item = page.decide("d")
    assert [made.row for made in read_decisions(runs[1])] == [item["row"]]
    assert list(read_decisions(runs[0])) == []


def test_a_key_before_the_page_knows_the_new_run_decides_nothing(browser, serve, make_run, tmp_path):
    runs = [make_run(tmp_path / name, images=False) for name in ("first", "second")]
    server, page = serve(runs[0], "--port", "0"), Page(browser)
    browser.get(server.url)
    page.ready()
    server.end()
    server = serve(runs[1], "--port", str(server.port))
    browser.execute_script("page.old = true; page.token = arguments[0]", server.token)
    browser.execute_script("sessionStorage.setItem('token', arguments[0])", server.token)
    page.press("d")
    wait_for_a_new_page(browser)
    assert "it was not recorded here" in page.text("status")
    assert list(read_decisions(runs[1])) == []


def test_a_name_given_to_the_command_comes_before_one_typed_earlier(browser, serve, make_run, tmp_path):
    run, page = make_run(tmp_path, images=False), Page(browser)
    shown = "document.getElementById('reviewer').value"

    def opened(port, *words):
        server = serve(run, "--port", str(port), *words)
        browser.get(server.url)
        page.ready()
        return server

    def typed(name):
        box = browser.find_element("id", "reviewer")
        box.clear()
        box.send_keys(name, "\ue007")
        page.decide("d")

    server = opened(0)
    typed("Bob")
    server.end()
    server = opened(server.port, "--reviewer", "Ann")
    page.until(f"{shown} === 'Ann'")
    page.decide("d")
    typed("Cleo")  # another person at this server
    browser.refresh()
    page.ready()
    assert browser.execute_script(f"return {shown}") == "Cleo"
    for words, name in ((("--reviewer", "Ann"), "Ann"), ((), "Cleo")):  # nobody is named: who typed last
        server.end()
        server = opened(server.port, *words)
        page.until(f"{shown} === '{name}'")
    with sqlite3.connect(run / "review.sqlite") as history:
        assert history.execute("SELECT reviewer FROM history").fetchall() == [("Bob",), ("Ann",), ("Cleo",)]
    history.close()


HOSTILE = (
    '<img src="x" onerror="window.ran = 1">',
    "<script>window.ran = 1</script>",
    "\"><svg onload='window.ran = 1'>",
    "</script></style></textarea><iframe srcdoc='<script>parent.ran = 1</script>'>",
    "javascript:window.ran = 1//",
    "&lt;b&gt; ${window.ran = 1} {{window.ran = 1}} \u202egnp.exe",
)


def test_hostile_names_and_ids_are_shown_as_the_text_they_are(browser, serve_here, make_run, tmp_path):
    ids = [f"{HOSTILE[row % len(HOSTILE)]} {row}" for row in range(60)]
    run = make_run(tmp_path, classes=len(HOSTILE), images=False, names=list(HOSTILE), ids=ids)
    server, page = serve_here(run), Page(browser)
    browser.get(f"{server.base}/#{server.token}")
    page.ready()
    elements = "return document.querySelectorAll('img, svg, iframe, script, b').length"
    before = browser.execute_script(elements)
    chosen = set()
    for number in range(2 * len(HOSTILE)):
        item, label = page.item, number % len(HOSTILE)
        assert (page.text("id"), page.text("given")) == (ids[item["row"]], HOSTILE[item["given"]])
        assert page.text("suggested") == HOSTILE[item["likely"][0][0]]
        browser.execute_script("document.getElementById('search').focus()")
        browser.execute_script(
            "const box = document.getElementById('search'); box.value = arguments[0];"
            "box.dispatchEvent(new Event('input'))",
            HOSTILE[label],
        )
        assert page.text("found") == HOSTILE[label]
        page.decide("\ue007")
        assert page.text("status").startswith(f"{ids[item['row']]}: ")
        chosen.add(item["row"])
    browser.find_element("css selector", "#recent summary").click()
    page.until(f"document.querySelectorAll('#entries button').length === {len(chosen)}")
    shown = browser.execute_script(
        "return Array.from(document.querySelectorAll('#entries td:first-child'), (cell) => cell.textContent)"
    )
    assert set(shown) == {ids[row] for row in chosen}
    assert browser.execute_script(elements) == before
    assert browser.execute_script("return [typeof window.ran, document.title]") == [
        "undefined",
        "pencil review run",
    ]
    assert page.complaints() == []
