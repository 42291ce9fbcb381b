#!/usr/bin/env python3
"""Writes the lock: every package that the continuous integration installs, with its version and the hash of its wheel.

Run it after a change of ``pyproject.toml`` or ``constraints.txt``, on Linux x86_64 with CPython 3.11: the hashes are of
the wheels for that platform. pip itself resolves, and nothing is installed. Two files are written to ``.ci/lock``:
``core.txt``, what the package needs without extras, and ``ci.txt``, all the rest. With ``--wanted`` it prints the
requirements that the lock is for, and writes nothing.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / ".ci" / "lock"
NOT_INSTALLED = {"torchvision", "timm"}  # extras whose absence the tests can do with
PIN = re.compile(r"(?P<name>[\w.-]+)==(?P<version>\S+) --hash=sha256:(?P<sha256>[0-9a-f]{64})")

HEADER = """\
# Written by .ci/lock.py for Linux x86_64 and CPython 3.11; each hash is of the wheel for that platform.
# pip install --require-hashes --no-deps --only-binary :all: -r {name}
"""
TORCH = """\
# torch is the CPU build, which is not on the public index: pip's own settings say where it lies.
"""


class Pin(NamedTuple):
    """One package of the lock."""

    name: str
    version: str
    sha256: str


def main() -> None:
    """Resolve twice, the second time under the versions of the first, and write both files."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)
    if sys.argv[1:] == ["--wanted"]:
        print("\n".join(wanted(project)))
        return
    everything = resolve(wanted(project), ROOT / "constraints.txt")
    LOCK.mkdir(exist_ok=True)
    versions = LOCK / "versions.tmp"
    versions.write_text("".join(f"{pin.name}=={pin.version}\n" for pin in everything))
    try:
        core = resolve(project["project"]["dependencies"], versions)
    finally:
        versions.unlink()
    rest = sorted(set(everything) - set(core))
    (LOCK / "core.txt").write_text(HEADER.format(name="core.txt") + TORCH + _lines(core))
    (LOCK / "ci.txt").write_text(HEADER.format(name="ci.txt") + "-r core.txt\n" + _lines(rest))
    print(f"{len(core)} packages in core.txt, {len(rest)} more in ci.txt")


def wanted(project: dict[str, Any]) -> list[str]:
    """The requirements of ``pyproject.toml`` that the lock answers: all but the extras that are not installed."""
    extras = project["project"]["optional-dependencies"]
    installed = [requirements for extra, requirements in extras.items() if extra not in NOT_INSTALLED]
    groups = project["dependency-groups"].values()
    lists = [project["project"]["dependencies"], project["build-system"]["requires"], *installed, *groups]
    return [requirement for requirements in lists for requirement in requirements]


def resolve(requirements: Iterable[str], constraints: Path) -> list[Pin]:
    """What pip would install into an empty environment, sorted by name."""
    options = ["--dry-run", "--ignore-installed", "--only-binary", ":all:", "--no-cache-dir", "--quiet"]
    command = [sys.executable, "-m", "pip", "install", *options, "--report", "-", "-c", str(constraints)]
    ran = subprocess.run([*command, *requirements], check=True, stdout=subprocess.PIPE, cwd=ROOT)  # noqa: S603 - pip
    return sorted(_pin(installed) for installed in json.loads(ran.stdout)["install"])


def _pin(installed: dict[str, Any]) -> Pin:
    sha256 = installed["download_info"]["archive_info"]["hashes"]["sha256"]
    return Pin(canonical(installed["metadata"]["name"]), installed["metadata"]["version"], sha256)


def canonical(name: str) -> str:
    """A package's name as indexes spell it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _lines(pins: Iterable[Pin]) -> str:
    return "".join(f"{pin.name}=={pin.version} --hash=sha256:{pin.sha256}\n" for pin in pins)


def read(path: Path) -> Iterator[Pin]:
    """The packages of a file of the lock, those of the files it includes first."""
    for line in path.read_text().splitlines():
        if line.startswith("-r "):
            yield from read(path.parent / line.removeprefix("-r "))
        elif pin := PIN.fullmatch(line):
            yield Pin(**pin.groupdict())
        elif not line.startswith("#"):
            raise ValueError(f"{path}: {line!r} is neither a pinned package with its hash nor '-r FILE'")


if __name__ == "__main__":
    main()
