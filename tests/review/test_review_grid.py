"""The grid, second opinions and the small things of the page, in a real browser by keys."""

import sqlite3
from contextlib import closing

import pytest

from pencil.results import read_decisions
from pencil.review.history import Who
from support.browser import axe_findings, axe_source, emulate
from support.review_page import Page
from support.servers import show_texts

pytest.importorskip("selenium.webdriver")
pytest.importorskip("fastapi")
pytestmark = pytest.mark.browser

LEFT, UP, RIGHT, DOWN, ESCAPE, ENTER = "\ue012", "\ue013", "\ue014", "\ue015", "\ue00c", "\ue007"
BOB = Who("Bob", "another window")


@pytest.fixture
def opened(browser, serve_here, make_run, tmp_path):
    """The page of a run and its server."""

    def open_(*, texts=0, server=None, **options):
        review = {
            name: options.pop(name) for name in ("second_opinion", "stop_below", "goal") if name in options
        }
        server = server or serve_here(make_run(tmp_path, **options), **review)
        if texts:
            show_texts(server.review, texts)
        page = Page(browser)
        page.open(server)
        return server, page

    return open_


def to_grid(page, size=12):
    page.browser.execute_script("document.getElementById('size').value = arguments[0]", str(size))
    page.press("g")
    page.until(f"page.ready && !page.busy && page.items.length === {size}")


def marked(page):
    return page.browser.execute_script(
        "return Array.from(document.querySelectorAll('[aria-selected=true]'), (tile) => Number(tile.id.slice(4)))"
    )


def current(page):
    return page.browser.execute_script("return page.items[grid.current].row")


def after(page, work):
    """Do something that shows other items, and wait for it."""
    before = str(page.rows).replace(" ", "")
    work()
    page.until(
        f"page.ready && !page.busy && JSON.stringify(page.items.map((item) => item.row)) !== '{before}'"
    )


def test_marked_items_are_decided_together_and_undone_together(opened):
    server, page = opened(rows=180, classes=6)
    to_grid(page)
    rows, items = page.rows, page.browser.execute_script("return page.items")
    assert (
        page.browser.execute_script(
            "return Array.from(document.querySelectorAll('.tile img'), (image) => image.naturalWidth)"
        )
        == [8] * 12
    )
    columns = page.browser.execute_script("return columns()")
    assert 2 < columns < 12
    page.press(" ", RIGHT, RIGHT, " ", DOWN, LEFT, " ", UP)
    wanted = [rows[0], rows[2], rows[columns + 1]]
    assert marked(page) == wanted
    assert current(page) == rows[1]
    assert page.text("marked") == "3 of 12 marked"
    after(page, lambda: page.press("d"))
    assert page.text("status") == "3 rows: dropped"
    assert page.text("count").startswith("3 /")
    assert page.rows[:9] == [row for row in rows if row not in wanted]  # the others stay, then new ones
    assert len(set(page.rows)) == 12
    assert marked(page) == []
    run = server.review.directory.path
    assert sorted(made.row for made in read_decisions(run)) == sorted(wanted)
    after(page, lambda: page.press("m", "a"))
    assert page.text("count").startswith("15 /")
    suggested = {item["row"]: item["likely"][0][0] for item in items if item["row"] not in wanted}
    labels = {made.row: made.label for made in read_decisions(run)}
    assert suggested.items() <= labels.items()
    after(page, lambda: page.press("u"))
    assert page.text("status") == "12 rows: undone"
    after(page, lambda: page.press("u"))
    assert list(read_decisions(run)) == []
    assert set(wanted) <= set(page.rows)
    assert page.complaints() == []
    page.press("g")
    page.until("page.ready && !page.busy && !document.getElementById('item').hidden")
    assert len(page.rows) == 1


def test_without_a_mark_the_current_item_is_decided_and_any_class_can_be_chosen(opened):
    server, page = opened(rows=180, classes=12, images=False)
    to_grid(page)
    rows = page.rows
    page.press(RIGHT)
    after(page, lambda: page.press("k"))
    page.press(" ", RIGHT, " ")
    two = marked(page)
    page.press("/", "11")
    page.until("document.getElementById('found').children.length === 1")
    after(page, lambda: page.press(ENTER))
    made = {each.row: each for each in read_decisions(server.review.directory.path)}
    assert sorted(made) == sorted([rows[1], *two])
    assert made[rows[1]].decision == "kept"
    assert [made[row].label for row in two] == [11, 11]


def test_texts_stand_in_the_grid_as_texts_and_never_as_html(opened):
    _, page = opened(images=False, texts=60)
    to_grid(page)
    shown = page.browser.execute_script(
        "return Array.from(document.querySelectorAll('.tile pre'), (text) => text.textContent)"
    )
    assert shown == [f"<img src=x onerror=alert(1)> note {row}" for row in page.rows]
    assert page.browser.execute_script("return document.querySelectorAll('.tile img').length") == 0
    assert page.complaints() == []


def test_if_another_reviewer_was_faster_nothing_is_recorded_and_marks_stay(opened):
    server, page = opened(rows=180, images=False)
    to_grid(page)
    page.press(" ", RIGHT, " ", RIGHT, " ")
    first, second, third = marked(page)
    server.review.decide(BOB, "t", [(second, 0)], "drop")
    after(page, lambda: page.press("k"))
    assert page.text("status") == (
        f"Bob has already decided on row {second}: dropped. None of your 3 decisions was recorded."
    )
    assert [made.row for made in read_decisions(server.review.directory.path)] == [second]
    assert marked(page) == [first, third]
    after(page, lambda: page.press("k"))
    assert sorted(made.row for made in read_decisions(server.review.directory.path)) == sorted(
        [first, second, third]
    )


def test_a_bulk_decision_waits_for_its_server_and_is_recorded_once(browser, serve, make_run, tmp_path):
    run = make_run(tmp_path, rows=180, images=False)
    server, page = serve(run, "--port", "0"), Page(browser)
    page.open(server)
    to_grid(page)
    rows = page.rows
    server.process.kill()
    server.process.wait()
    page.press("m", "d")  # while no server listens
    page.until("document.getElementById('status').className === 'bad'")
    server = serve(run, "--port", str(server.port))
    after(page, lambda: browser.get(server.url))
    server.end()
    with closing(sqlite3.connect(run / "review.sqlite")) as history:
        found = history.execute("SELECT row, action, request FROM history ORDER BY entry").fetchall()
    assert found == [(row, "dropped", 1) for row in rows]


def test_a_duplicated_tab_gets_items_of_its_own(opened):
    _, page = opened(images=False)
    first, browser = page.item, page.browser
    original = browser.current_window_handle
    browser.execute_script("window.open(location.href)")  # copies the session's storage, as duplicating does
    (copy,) = set(browser.window_handles) - {original}
    browser.switch_to.window(copy)
    page.ready()
    second = page.item
    assert second["row"] != first["row"]
    browser.refresh()
    page.ready()
    assert page.item == second
    browser.close()
    browser.switch_to.window(original)


def test_help_opens_and_no_key_decides_behind_it(opened):
    server, page = opened(images=False)
    page.press("?")
    page.until("document.getElementById('help').open")
    page.press("d")
    page.press(ESCAPE)
    page.until("!document.getElementById('help').open")
    assert server.review.progress()["decided"] == 0
    page.decide("d")
    assert server.review.progress()["decided"] == 1


def test_an_empty_search_lists_all_classes_and_chooses_none_by_itself(opened):
    server, page = opened(rows=1500, classes=250, images=False)
    page.press("/")
    page.until("document.getElementById('found').children.length === 250")
    extent = page.browser.execute_script(
        "const list = $('found'); return [list.scrollHeight, list.clientHeight]"
    )
    assert extent[0] > 5 * extent[1]  # it scrolls, and the page stays as it is
    page.press(ENTER)
    assert not page.browser.execute_script("return page.busy")
    item = page.item
    page.press(DOWN, DOWN)
    page.decide(ENTER)
    assert page.text("status").endswith("class 1") or item["given"] == 1
    assert page.browser.execute_script("return document.getElementById('found').hidden")
    assert server.review.progress()["decided"] == 1


def test_where_the_given_label_is_suggested_accepting_is_not_offered(opened):
    _, page = opened(rows=120, images=False)
    offered = "return !document.querySelector('#actions [data-action=accept]').hidden"
    found = set()
    while len(found) < 2:
        same = page.item["given"] == page.item["likely"][0][0]
        assert page.browser.execute_script(offered) is not same
        found.add(same)
        page.decide("k")
        page.ready()


@pytest.mark.parametrize("width", [360, 550])
def test_no_choice_is_covered_at_the_width_of_a_phone(opened, width):
    _, page = opened(classes=8)
    emulate(page.browser, width=width)
    covered = page.browser.execute_script(
        """
        return Array.from(document.querySelectorAll("#item button:not([hidden]), #search"), (each) => {
          each.scrollIntoView({ block: "nearest" });
          const { left, top, width, height } = each.getBoundingClientRect();
          const found = document.elementFromPoint(left + width / 2, top + height / 2);
          return each.contains(found) ? null : each.textContent;
        }).filter((found) => found !== null);
        """
    )
    assert covered == []
    assert page.browser.execute_script("return document.documentElement.scrollWidth") <= width


def test_both_classes_are_shown_by_rows_that_are_surely_theirs(opened):
    _, page = opened(rows=120, classes=5)
    for _ in range(5):
        item = page.item
        page.until("document.querySelectorAll('#references figure img').length > 1")
        groups = page.browser.execute_script(
            """
            return Array.from(document.querySelectorAll("#references figure"), (group) => [
              group.querySelector("figcaption").textContent, group.querySelector("img").alt,
              Array.from(group.querySelectorAll("img"), (image) => image.naturalWidth)]);
            """
        )
        suggested, second = (label for label, _ in item["likely"][:2])
        given = item["given"]
        words = {"given": given, "suggested": suggested}
        if given == suggested:
            words = {"given and suggested": given, "next likely": second}
        assert [caption for caption, _, _ in groups] == [
            f"{word}: class {label}" for word, label in words.items()
        ]
        assert [alt for _, alt, _ in groups] == [f"example of class {label}" for label in words.values()]
        assert all(1 <= len(widths) <= 3 and set(widths) == {8} for _, _, widths in groups)
        page.decide("d")
        page.ready()
    assert page.complaints() == []


def test_reference_texts_are_texts_and_never_html(opened):
    _, page = opened(images=False, texts=60)
    page.until("document.querySelectorAll('#references pre').length > 1")
    assert "<img src=x onerror=alert(1)> note" in page.text("references")
    assert page.browser.execute_script("return document.querySelectorAll('#references img').length") == 0


def test_the_forecast_counts_down_and_suggests_to_stop(opened):
    server, page = opened(images=False, stop_below=25)
    forecast = server.review.start()["forecast"]
    count = forecast["looks"]
    assert not forecast["stop"]
    expected = round(forecast["expected"])
    assert (
        page.text("forecast") == f"The next {count} looks are expected to find about {expected} wrong labels."
    )
    while not server.review.start()["forecast"]["stop"]:
        page.decide("k")
        page.ready()
    assert "wrong labels, fewer than 25. You can stop here." in page.text("forecast")
    assert page.browser.execute_script("return document.getElementById('forecast').className") == "stop"


def test_a_second_opinion_is_blind_and_disagreements_come_back(opened, serve_here, make_run, tmp_path):
    run = make_run(tmp_path, images=False)
    first = serve_here(run)
    items = first.review.take("w", 10)["items"]
    first.review.decide(BOB, "t", [(item["row"], item["version"]) for item in items], "keep")
    _, page = opened(server=serve_here(run, second_opinion=True))
    assert page.text("count") == "0 / 10"
    assert page.text("forecast") == "Second opinion: 0 of 0 agree"
    page.browser.find_element("css selector", "#recent summary").click()
    assert "Bob" not in page.text("entries")
    for key in "kkkd":
        item = page.decide(key)
        page.ready()
    assert page.text("forecast").startswith("Second opinion: 3 of 4 agree (75 %, kappa ")
    page.browser.find_element("css selector", "#differ summary").click()
    page.until("document.querySelectorAll('#pairs button').length === 1")
    assert page.text("pairs").startswith(f"{item['id']}Bob: kept")
    page.browser.find_element("css selector", "#pairs button").click()
    page.until("!page.busy && document.querySelectorAll('#pairs button').length === 0")
    assert page.text("forecast").startswith("Second opinion: 3 of 3 agree (100 %")
    assert [found["row"] for found in first.review.take("w")["items"]] == [item["row"]]
    assert page.complaints() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", ["item", "grid", "help"])
def test_axe_finds_nothing_serious(opened, view, scheme):
    source = axe_source()
    _, page = opened(rows=180)
    emulate(page.browser, scheme=scheme)
    if view == "grid":
        to_grid(page)
        page.press(" ", RIGHT, "/")
        page.until("document.getElementById('found').children.length > 0")
    elif view == "help":
        page.press("?")
    else:
        page.decide("k")
        page.ready()
        page.browser.find_element("css selector", "#recent summary").click()
        page.until("document.querySelectorAll('#entries button').length === 1")
    assert axe_findings(page.browser, source) == []
