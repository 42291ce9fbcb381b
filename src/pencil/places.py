"""Allowed locations of data: below its own folder, and at places that the user names.

A table of images or an index of shards may come from an untrusted source. Its paths and addresses may point outside its
own folder only to places named by the command line (``pencil --allow PLACE ...``), the variable ``PENCIL_ALLOW`` or
the caller of a reader; a file cannot allow them. Symbolic links are followed: they belong to the owner of the folder,
and their targets are read as images only.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

VARIABLE = "PENCIL_ALLOW"
"""Folders and addresses, separated by commas; inherited by child processes."""
_LEAVES = re.compile(r"^[/\\]|^[A-Za-z]:|(^|[/\\])\.\.([/\\]|$)")


@contextlib.contextmanager
def allowing(places: Sequence[str]) -> Iterator[None]:
    """Allow some places within a block, in addition to those of the environment."""
    before = os.environ.get(VARIABLE)
    if places:
        os.environ[VARIABLE] = ",".join([*allowed_places(), *places])
    try:
        yield
    finally:
        if places and before is None:
            os.environ.pop(VARIABLE, None)
        elif places and before is not None:
            os.environ[VARIABLE] = before


def allowed_places() -> tuple[str, ...]:
    """The places that the environment allows."""
    return tuple(place.strip() for place in os.environ.get(VARIABLE, "").split(",") if place.strip())


def is_remote(place: str) -> bool:
    """Whether a place is an address rather than a local path."""
    return "://" in place


def stays_within(path: str, folder: Path, allow: Sequence[str] = ()) -> bool:
    """Whether a path named by a file, relative to ``folder``, is below the folder or an allowed place."""
    if not _LEAVES.search(path):
        return True
    real = os.path.realpath(folder / path)
    places = [place for place in (*allow, *allowed_places()) if not is_remote(place)]
    homes = [folder, *(Path(place).expanduser() for place in places)]
    return any(Path(real).is_relative_to(os.path.realpath(home)) for home in homes)


def may_contact(url: str, allow: Sequence[str] = ()) -> bool:
    """Whether an address equals or is below an allowed one; names must match as a whole (not ``//host.org``)."""
    places = [place.rstrip("/") for place in (*allow, *allowed_places()) if is_remote(place)]
    plain = "\\" not in url and ".." not in url.split("?")[0].split("/")
    return plain and any(url == place or url.startswith(f"{place}/") for place in places)


def remedy(place: str) -> str:
    """The remedy for a place that is not allowed."""
    return f"if you trust its author, allow the place: pencil --allow {place} COMMAND, or {VARIABLE}={place}"


def common_place(places: Sequence[str]) -> str:
    """The common folder of all paths, or the common prefix of all addresses on the first one's server."""
    if not is_remote(places[0]):
        return os.path.commonpath([Path(place).absolute().parent for place in places])
    servers, paths = zip(*map(_parted, filter(is_remote, places)), strict=True)
    shared = [path for server, path in zip(servers, paths, strict=True) if server == servers[0]]
    return f"{servers[0]}{os.path.commonpath(shared)}".rstrip("/")


def _parted(url: str) -> tuple[str, str]:
    """Scheme and server of an address, and the folder of its path."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}", posixpath.dirname(parts.path) or "/"
