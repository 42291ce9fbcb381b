#!/usr/bin/env python3
"""Writes the bill of materials of a release: what the wheel needs, in the versions that its tests ran with.

``sbom.py FOLDER`` takes the wheel and the source archive in FOLDER and writes a CycloneDX 1.6 file beside them.
Versions and hashes are those of the lock; licences and who needs whom are read from the installed packages. Nothing in
it depends on the time or the place: its serial number is made of its content.
"""

from __future__ import annotations

import hashlib
import json
import sys
import uuid
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from licences import licence
from lock import LOCK, NOT_INSTALLED, Pin, canonical, read
from packaging.requirements import Requirement

Graph = dict[str, set[str]]


def main(folder: Path) -> None:
    """Write the bill, or stop where the schema refuses it."""
    (wheel,), (archive,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    text = json.dumps(bill(wheel, archive), indent=1) + "\n"
    if fault := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        sys.exit(f"the bill of materials is not CycloneDX 1.6: {fault}")
    (folder / archive.name.replace(".tar.gz", ".cdx.json")).write_text(text)


def bill(wheel: Path, archive: Path) -> dict[str, Any]:
    """The whole document."""
    root = unpacked(wheel)
    graph = needs(root)
    pins = {pin.name: pin for pin in read(LOCK / "ci.txt") if pin.name in graph}
    core = {pin.name for pin in read(LOCK / "core.txt")}
    reference = {canonical(root.name): purl(root.name, root.version)}
    reference |= {name: purl(name, pin.version) for name, pin in pins.items()}
    content = {
        "metadata": {"component": released(root, (wheel, archive))},
        "components": [component(pin, required=name in core) for name, pin in sorted(pins.items())],
        "dependencies": list(dependencies(graph, reference)),
        # The lock leaves out the extras torchvision and timm.
        "compositions": [{"aggregate": "incomplete", "dependencies": [reference[canonical(root.name)]]}],
    }
    serial = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(content, sort_keys=True))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        **content,
    }


def unpacked(wheel: Path) -> metadata.Distribution:
    """The metadata inside a wheel."""
    name, version = wheel.name.split("-")[:2]
    return metadata.PathDistribution(zipfile.Path(wheel, f"{name}-{version}.dist-info/"))


def needs(root: metadata.Distribution) -> Graph:
    """Who needs whom, from the release on, with every extra of it that the lock holds."""
    graph: Graph = {}
    extras = frozenset(root.metadata.get_all("Provides-Extra") or ()) - NOT_INSTALLED
    waiting = [(root, extras)]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        distribution, extras = waiting.pop()
        name = canonical(distribution.name)
        direct = [
            (canonical(requirement.name), frozenset(requirement.extras))
            for requirement in required(distribution, extras)
        ]
        graph.setdefault(name, set()).update(other for other, _ in direct)
        new = set(direct) - seen
        seen |= new
        waiting += [(metadata.distribution(other), wanted) for other, wanted in new]
    return graph


def required(distribution: metadata.Distribution, extras: Iterable[str]) -> Iterator[Requirement]:
    """What a package needs on this platform, with these extras of its own."""
    for line in distribution.requires or ():
        requirement = Requirement(line)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield requirement


def purl(name: str, version: str) -> str:
    """The name of a package for bills of materials."""
    return f"pkg:pypi/{canonical(name)}@{version.replace('+', '%2B')}"


def released(root: metadata.Distribution, files: Iterable[Path]) -> dict[str, Any]:
    """The release itself, with the checksums of its files."""
    return {
        **_described(root.name, root.version, root),
        "externalReferences": [
            {"type": "distribution", "url": file.name, "hashes": [_sha256(_digest(file))]} for file in files
        ],
    }


def component(pin: Pin, *, required: bool) -> dict[str, Any]:
    """One package that the release needs, always or for an extra."""
    return {
        **_described(pin.name, pin.version, metadata.distribution(pin.name)),
        "scope": "required" if required else "optional",
        "hashes": [_sha256(pin.sha256)],
    }


def _described(name: str, version: str, distribution: metadata.Distribution) -> dict[str, Any]:
    reference = purl(name, version)
    return {
        "type": "library",
        "bom-ref": reference,
        "name": canonical(name),
        "version": version,
        "purl": reference,
        "licenses": [{"expression": licence(distribution.metadata)}],
    }


def dependencies(graph: Graph, reference: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """The graph, in the words of CycloneDX."""
    for name, others in sorted(graph.items()):
        yield {"ref": reference[name], "dependsOn": [reference[other] for other in sorted(others)]}


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _sha256(digest: str) -> dict[str, str]:
    return {"alg": "SHA-256", "content": digest}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
