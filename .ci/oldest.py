#!/usr/bin/env python3
"""Writes ``.ci/oldest.txt``: the oldest versions that ``pyproject.toml`` allows, for ``.ci/run oldest``.

Run it after a change of a lower bound. Every direct dependency, of the extras too, gets the lowest version within its
bounds (uv's ``lowest-direct``), on CPython 3.11. What they need in turn, and the tools of the tests, get the newest
versions that fit.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable

from lock import NOT_INSTALLED, ROOT

OLDEST = ROOT / ".ci" / "oldest.txt"
HEADER = """\
# Written by .ci/oldest.py: the oldest versions that pyproject.toml allows, on CPython 3.11.
# What a build of torch for a graphics card needs is left out.
"""
TOOLS = ("hatchling", "httpx", "hypothesis", "pytest-timeout", "pytest-xdist")
# datasets is not among them: no version fits beside both pyarrow 17 and fsspec 2025.5, and its tests skip.
BEFORE_PYTEST_9 = "pytest>=8.3,<9"  # it warns of how old versions of scikit-learn list their checks
GRAPHICS = re.compile(r"(nvidia-|cuda-|triton=)")


def main() -> None:
    """Resolve the direct dependencies downwards, and then everything beside them."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    extras = project["optional-dependencies"].items()
    optional = [line for extra, lines in extras if extra not in NOT_INSTALLED for line in lines]
    direct = [*project["dependencies"], *optional]  # uv settles the first ones first
    floors = _compiled(direct, "--resolution", "lowest-direct")
    OLDEST.write_text("\n".join(floors))
    pins = _compiled([*direct, *TOOLS, BEFORE_PYTEST_9], "--constraints", str(OLDEST))
    kept = [pin for pin in pins if not GRAPHICS.match(pin)]
    OLDEST.write_text(HEADER + "\n".join(kept) + "\n")
    print(f"{len(kept)} packages in {OLDEST.name}")


def _compiled(requirements: Iterable[str], *options: str) -> list[str]:
    command = [
        sys.executable,
        "-m",
        "uv",
        "pip",
        "compile",
        "--quiet",
        "--no-header",
        "--no-annotate",
        *options,
    ]
    command += ["--python-version", "3.11", "--only-binary", ":all:", "-"]
    lines = "\n".join(requirements)
    ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, input=lines, text=True, cwd=ROOT)  # noqa: S603 - uv
    return ran.stdout.splitlines()


if __name__ == "__main__":
    main()
