"""Identities and seals: which run a file belongs to, in which format it is, and whether it is still what was written.

Every run, audit and sheet has a random id. Files that others refer to are sealed: near its beginning such a file holds

    "seal": "pencil FORMAT OWNER CHECKSUM"

with the id of what it belongs to and a checksum of the whole file, computed with zeros in place of the checksum. So one
flipped bit is noticed, and so is a file that was copied from elsewhere. The rule is the same for JSON, where the seal
is the first field, and for safetensors, where it is in the metadata.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from pencil.durable import write_text
from pencil.errors import RunError
from pencil.reading import JSON_BYTES, is_file, open_plain, parse_json, read_bytes

FORMAT = 1
"""The format of everything that this version writes. It reads this one and earlier ones; docs/format.md lists them."""
RUN = "run.json"
SEAL = "seal"
_HEAD = 4096  # bytes at the beginning of a file that hold its seal
_BLOCK = 1 << 22
_EMPTY = "0" * 32
_PATTERN = re.compile(rb'"seal": ?"pencil ([0-9]{1,9}) ([^" ]{1,200}) ([0-9a-f]{32})"')


class SealError(RunError):
    """A file is not what was written, belongs to another run, or was written by a newer version."""


class Seal(NamedTuple):
    """The seal of a file; ``place`` is where its checksum begins."""

    format: int
    owner: str
    checksum: str
    place: int


def new_id() -> str:
    """A random id."""
    return secrets.token_hex(16)


def empty_seal(owner: str) -> str:
    """A seal without checksum, to write a file with that ``seal_file`` completes."""
    return f"pencil {FORMAT} {owner} {_EMPTY}"


def seal_file(path: Path) -> None:
    """Put the checksum into the seal of a file that was written with an empty one."""
    with path.open("r+b") as file:
        seal = _read_seal(file)
        assert seal is not None, f"{path} was written without a seal"
        checksum = _checksum(file, seal)
        file.seek(seal.place)
        file.write(checksum.encode())


def sealed_json(values: Mapping[str, Any], owner: str, **options: Any) -> str:
    """A JSON object with a seal; ``options`` are those of ``json.dumps``."""
    text = json.dumps({SEAL: empty_seal(owner), **values}, **options) + "\n"
    checksum = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    return text.replace(_EMPTY, checksum, 1)


def check_seal(path: Path, owner: str | None, remedy: str) -> None:
    """Check that a file is what was written for this owner.

    Without an owner, as in runs from before there were seals, a file without a seal passes.

    Raises:
        SealError: It is not.
    """
    problem = seal_problem(path, owner)
    if problem is not None:
        raise SealError(f"{path}: {problem}; {remedy}")


def seal_problem(path: Path, owner: str | None) -> str | None:
    """Why a file is not what was written for this owner; None if it is."""
    with open_plain(path, error=SealError) as file:
        seal = _read_seal(file)
        if seal is None:
            return None if owner is None else "it has no seal, so it was changed or comes from elsewhere"
        if seal.format > FORMAT:
            return newer(seal.format)
        if owner is not None and seal.owner != owner:
            return f"it belongs to {seal.owner}, not to {owner}"
        return None if _checksum(file, seal) == seal.checksum else "its checksum is not that of its content"


def seal_of(path: Path) -> Seal | None:
    """The seal of a file; None if it has none."""
    with open_plain(path, error=SealError) as file:
        return _read_seal(file)


def unsealed(path: Path) -> bytes:
    """The content of a file without its seal, in which files of several runs differ that are otherwise the same."""
    content = path.read_bytes()
    found = _PATTERN.search(content[:_HEAD])
    return content if found is None else content[: found.start()] + content[found.end() :]


def newer(number: int) -> str:
    """The words for a format of a later version."""
    return (
        f"it was written by a newer version (format {number}, this one knows {FORMAT}); upgrade pencil-labels"
    )


def _read_seal(file: BinaryIO) -> Seal | None:
    file.seek(0)
    found = _PATTERN.search(file.read(_HEAD))
    if found is None:
        return None
    return Seal(int(found[1]), found[2].decode("utf-8", "replace"), found[3].decode(), found.start(3))


def _checksum(file: BinaryIO, seal: Seal) -> str:
    """The checksum of a file, with zeros in place of the one that it holds."""
    file.seek(0)
    digest = hashlib.blake2b(digest_size=16)
    digest.update(file.read(seal.place) + _EMPTY.encode())
    file.seek(len(_EMPTY), os.SEEK_CUR)
    while block := file.read(_BLOCK):
        digest.update(block)
    return digest.hexdigest()


def write_identity(folder: Path, owner: str | None = None) -> str:
    """Give a run an id, a new one by default."""
    owner = owner or new_id()
    write_text(folder / RUN, sealed_json({"format": FORMAT, "id": owner}, owner))
    return owner


def run_id(folder: Path) -> str | None:
    """The id of the run in a folder; None for a run from before there were ids.

    Raises:
        SealError: The file is damaged, or from a newer version.
    """
    path = folder / RUN
    if not is_file(path):
        return None
    values = parse_json(read_bytes(path, limit=JSON_BYTES, error=SealError), source=path, error=SealError)
    known, owner = (values.get(name) if isinstance(values, dict) else None for name in ("format", "id"))
    if isinstance(known, int) and known > FORMAT:
        raise SealError(f"{path}: {newer(known)}")
    check_seal(path, owner if isinstance(owner, str) else "", "restore it from a backup")
    return str(owner)
