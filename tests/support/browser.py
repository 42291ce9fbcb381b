"""Headless Chromium, a server on loopback that notes what is asked of it, and axe-core from npm."""

import contextlib
import functools
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

AXE = "axe-core@4.14.0"
CACHE = "PENCIL_AXE_CACHE"


class Handler(SimpleHTTPRequestHandler):
    """Serves files and notes every path."""

    def do_GET(self):
        self.server.asked.append(self.path)
        super().do_GET()

    def log_message(self, *_):
        """Say nothing."""


@contextlib.contextmanager
def serving(folder):
    """The server's address and the list of paths that were asked for."""
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder))) as server:
        server.asked = []
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", server.asked
        server.shutdown()
        thread.join()


def chromium():
    """A driver, or a skipped test that says what is missing."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    driver, browser = shutil.which("chromedriver"), shutil.which("chromium") or shutil.which("google-chrome")
    if driver is None or browser is None:
        pytest.skip("chromium and chromedriver are not installed (Debian: chromium, chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for word in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1280,900"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    opened = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    opened.set_script_timeout(180)  # axe looks at every element, on a busy machine
    return opened


def requested(driver):
    """The addresses the page asked for since the last look."""
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    sent = [each["params"] for each in messages if each["method"] == "Network.requestWillBeSent"]
    return [params["request"]["url"] for params in sent]


def emulate(driver, *, scheme="light", media="", width=1280):
    """Another colour scheme, medium or width."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def axe_source():
    """axe.min.js from the cache folder; fetched from npm where it is not there yet."""
    if CACHE not in os.environ:
        pytest.skip(f"{CACHE} names no folder to keep axe-core in")
    folder = Path(os.environ[CACHE])
    file = folder / f"{AXE}.min.js"
    if not file.exists():
        _fetch_axe(file)
    return file.read_text(encoding="utf-8")


def _fetch_axe(file):
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip(f"npm is not installed, and {file} is not there")
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=file.parent) as place:
        told = subprocess.run(
            [npm, "pack", "--silent", AXE],
            cwd=place,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        if told.returncode:
            pytest.skip(f"npm pack {AXE} failed: {told.stderr.strip()[-300:]}")
        with tarfile.open(Path(place) / told.stdout.split()[-1]) as archive:
            source = archive.extractfile("package/axe.min.js").read()
        partial = Path(place) / "axe.min.js"
        partial.write_bytes(source)
        partial.replace(file)


def axe_findings(driver, source):
    """Serious and critical findings: rule, and where."""
    driver.execute_script(source)
    found = driver.execute_async_script(
        "const done = arguments[0]; const broken = (error) => "
        "done([{ id: String(error), impact: 'critical', nodes: [] }]); "
        "axe.run().then((result) => done(result.violations), broken)"
    )
    return [
        (each["id"], node["target"], node.get("failureSummary"))
        for each in found
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"] or [{"target": "page"}]
    ]
