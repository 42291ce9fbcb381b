"""The page as a browser shows it: quiet, alone, usable by keyboard and screen reader, in any light and width."""

import pytest

from pencil.report import gather, write_page
from pencil.run import RunDirectory
from support import browser

pytestmark = pytest.mark.browser

PAGES = ("hostile", "images")
CURVE = "return getComputedStyle(document.querySelector('.series-0 .curve')).stroke"


@pytest.fixture(scope="module")
def driver():
    found = browser.chromium()
    yield found
    found.quit()


@pytest.fixture(scope="module")
def served(hostile_run, image_run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    write_page(gather(RunDirectory.open(hostile_run)), folder / "hostile.html")
    write_page(gather(RunDirectory.open(image_run)), folder / "images.html")
    with browser.serving(folder) as (address, asked):
        yield address, asked


@pytest.fixture
def shown(driver, served):
    """Opens a page; beforehand nothing of an earlier one is left."""

    def show(name, **how):
        browser.emulate(driver, **how)
        driver.get("about:blank")
        driver.get_log("browser"), browser.requested(driver), served[1].clear()
        driver.get(f"{served[0]}/{name}.html")
        return driver

    return show


@pytest.mark.parametrize("name", PAGES)
def test_a_page_says_nothing_on_the_console_and_asks_for_nothing(shown, served, name):
    driver = shown(name)
    address, asked = served
    assert driver.find_element("tag name", "h1").text
    assert driver.get_log("browser") == []
    assert asked == [f"/{name}.html"]
    outside = [url for url in browser.requested(driver) if not url.startswith("data:")]
    assert outside == [f"{address}/{name}.html"]


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(shown, name, scheme):
    source = browser.axe_source()
    driver = shown(name, scheme=scheme)
    driver.execute_script("for (const each of document.querySelectorAll('details')) each.open = true")
    assert browser.axe_findings(driver, source) == []


def test_axe_would_find_something(shown):
    source = browser.axe_source()
    driver = shown("images")
    driver.execute_script("document.querySelector('.gallery img').removeAttribute('alt')")
    assert [rule for rule, *_ in browser.axe_findings(driver, source)] == ["image-alt"]


def test_the_dark_is_dark(shown):
    ground = "return getComputedStyle(document.body).backgroundColor"
    light, dark = (
        [shown("hostile", scheme=each).execute_script(code) for code in (ground, CURVE)]
        for each in ("light", "dark")
    )
    assert (light[0], dark[0]) == ("rgb(251, 250, 247)", "rgb(19, 23, 28)")
    assert light[1] != dark[1]
    printed = shown("hostile", scheme="dark", media="print")
    assert printed.execute_script(ground) == "rgb(255, 255, 255)"
    assert printed.execute_script(CURVE) == light[1]


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("width", [320, 768, 1280])
def test_the_page_is_never_wider_than_the_window(shown, name, width):
    driver = shown(name, width=width)
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width


def test_the_table_of_classes_sorts_by_keyboard(shown):
    keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
    driver = shown("hostile")

    def column(index):
        return driver.execute_script(
            "const rows = [...document.querySelectorAll('#class-table tbody tr')]; "
            "return rows.map((row) => row.cells[arguments[0]].textContent)",
            index,
        )

    given = driver.find_elements("css selector", "#class-table th button")[1]
    given.send_keys(keys.ENTER)
    down = [int(value) for value in column(1)]
    assert down == sorted(down, reverse=True)
    given.send_keys(keys.SPACE)
    assert [int(value) for value in column(1)] == down[::-1]
    head = given.find_element("xpath", "..")
    assert head.get_attribute("aria-sort") == "ascending"
    assert driver.find_element("id", "class-sorted").text == "Sorted by Given, ascending."
    assert len(driver.find_elements("css selector", "#class-table th[aria-sort]")) == 1
    driver.find_elements("css selector", "#class-table th button")[0].send_keys(keys.ENTER)
    names = column(0)
    assert names[0] == "<script>alert(1)</script>"
    assert len(names) == 5


def test_a_class_is_found_by_its_name(shown):
    driver = shown("images")
    driver.find_element("id", "find-class").send_keys("OW")
    rows = driver.find_elements("css selector", "#class-table tbody tr")
    assert [row.find_element("tag name", "th").text for row in rows if row.is_displayed()] == ["owl"]
    assert driver.find_element("css selector", ".find output").text == "1 of 3 classes"


def test_the_first_key_leads_past_the_contents(shown):
    keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
    driver = shown("hostile")
    driver.find_element("tag name", "body").send_keys(keys.TAB)
    link = driver.switch_to.active_element
    assert link.text == "Skip to the report"
    link.send_keys(keys.ENTER)
    assert driver.switch_to.active_element.get_attribute("id") == "main"


def test_without_its_script_the_page_is_whole(shown):
    driver = shown("hostile")
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        driver.refresh()
        assert len(driver.find_elements("css selector", "#class-table tbody tr")) == 5
        assert not driver.find_element("id", "find-class").is_displayed()
    finally:
        driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
