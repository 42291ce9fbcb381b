"""MathJax as a file of the site, so that formulas need no network when a page is read.

The site's build fetches it once from npm (``npm pack``), compares it with the checksum below, and keeps it in the
folder ``PENCIL_MATHJAX_CACHE`` (``docs/_build/npm`` by default). Its license, Apache-2.0, is copied beside it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.util import logging

PACKAGE = "mathjax@3.2.2"
FILES = {  # of the package, with their SHA-256; this build draws SVG and needs no fonts
    "es5/tex-svg.js": "d4295dc33744836935c1399feece5159577b34c5c8ffb9f1c6324cd82e03a882",
    "LICENSE": "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30",
}
CACHE = "PENCIL_MATHJAX_CACHE"
FOLDER = "mathjax"


def _checked(name: str, content: bytes) -> bytes:
    found = hashlib.sha256(content).hexdigest()
    if found != FILES[name]:
        raise ValueError(f"{PACKAGE}: {name} has the SHA-256 {found}, not {FILES[name]}")
    return content


def _is_there(folder: Path) -> bool:
    try:
        return all(_checked(name, (folder / Path(name).name).read_bytes()) for name in FILES)
    except (OSError, ValueError):
        return False


def fetch(folder: Path) -> None:
    """Put the files into a folder, from npm."""
    npm = shutil.which("npm")
    if npm is None:
        raise OSError("npm is not installed")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        command = [npm, "pack", "--silent", PACKAGE]
        packed = subprocess.run(  # noqa: S603  # npm itself, with fixed words
            command, cwd=place, capture_output=True, text=True, check=True, timeout=300
        )
        with tarfile.open(Path(place) / packed.stdout.split()[-1]) as archive:
            for name in FILES:
                member = archive.extractfile(f"package/{name}")
                assert member is not None
                (folder / Path(name).name).write_bytes(_checked(name, member.read()))


def _bundle(app: Sphinx, config: Config) -> None:
    cache = Path(os.environ.get(CACHE) or Path(app.confdir) / "_build" / "npm").resolve()
    folder = cache / FOLDER
    try:
        if not _is_there(folder):
            fetch(folder)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        words = "%s cannot be fetched (%s), so pages load MathJax from the network; install npm, or set %s"
        logging.getLogger(__name__).warning(words, PACKAGE, error, CACHE, type="mathjax", subtype="fetch")
        return
    config.html_static_path = [*config.html_static_path, str(cache)]
    config.mathjax_path = f"{FOLDER}/tex-svg.js"


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.setup_extension("sphinx.ext.mathjax")
    app.connect("config-inited", _bundle)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
