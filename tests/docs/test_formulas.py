"""Formulas are drawn by a MathJax that is part of the site: no page needs the network."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support import browser

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[2] / "docs"
CONF = f"""
import sys
sys.path.insert(0, {str(DOCS / "_ext")!r})
extensions = ["myst_parser", "bundled_mathjax"]
myst_enable_extensions = ["dollarmath"]
"""
PAGES = [path for path in sorted(DOCS.glob("*.md")) if "\\hat y" in path.read_text(encoding="utf-8")]
PAGE = "# Formulas\n\nInline $\\tilde y = K \\hat y$, and\n\n$$\n\\eta = \\frac{\\lambda}{B c}\n$$\n"


@pytest.fixture
def extension(monkeypatch):
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    import bundled_mathjax

    return bundled_mathjax


@pytest.fixture
def build(tmp_path):
    """Builds a site of one page with MathJax kept in a folder; returns the site and what the build said."""
    pytest.importorskip("sphinx")
    source = tmp_path / "source"
    source.mkdir()
    (source / "conf.py").write_text(CONF)
    (source / "index.md").write_text(PAGE)
    for page in PAGES:
        shutil.copy(page, source)

    def run(cache: Path, **environment):
        command = [sys.executable, "-m", "sphinx", "-q", str(source), str(tmp_path / "site")]
        variables = {**os.environ, "PENCIL_MATHJAX_CACHE": str(cache), **environment}
        ran = subprocess.run(command, env=variables, capture_output=True, text=True, check=True, timeout=120)
        return tmp_path / "site", ran.stderr

    return run


def test_a_file_with_another_checksum_is_refused(extension, tmp_path):
    for name in extension.FILES:
        (tmp_path / Path(name).name).write_text("something else")
    assert not extension._is_there(tmp_path)
    with pytest.raises(ValueError, match=r"mathjax@3.2.2: LICENSE has the SHA-256 .*, not cfc7749b"):
        extension._checked("LICENSE", b"something else")


def test_without_npm_the_build_warns(build, tmp_path):
    _, told = build(tmp_path / "cache", PATH=str(tmp_path))
    assert "mathjax@3.2.2 cannot be fetched (npm is not installed)" in told


@pytest.mark.browser
def test_formulas_are_drawn_and_nothing_is_fetched_from_elsewhere(build):
    assert {"method.md", "methods.md", "paper-and-practice.md"} <= {page.name for page in PAGES}
    if browser.CACHE not in os.environ:
        pytest.skip(f"{browser.CACHE} names no folder to keep packages of npm in")
    site, told = build(Path(os.environ[browser.CACHE]))
    if "cannot be fetched" in told:
        pytest.skip(told.strip())
    driver = browser.chromium()
    driver.set_script_timeout(60)
    try:
        with browser.serving(site) as (address, _):
            browser.requested(driver)
            assert drawn(driver, f"{address}/index.html") == (2, 0)
            for page in PAGES:
                formulas, mistakes = drawn(driver, f"{address}/{page.stem}.html")
                assert formulas >= 3
                assert mistakes == 0, page.name
            outside = [url for url in browser.requested(driver) if not url.startswith((address, "data:"))]
            assert outside == []
    finally:
        driver.quit()


def drawn(driver, address: str) -> tuple[int, int]:
    """How many formulas a page shows, and how many TeX mistakes."""
    driver.get(address)
    driver.execute_async_script("MathJax.startup.promise.then(arguments[0])")
    count = "return document.querySelectorAll(arguments[0]).length"
    mistakes = driver.execute_script(count, "[data-mml-node=merror]")
    return driver.execute_script(count, "mjx-container > svg"), mistakes
