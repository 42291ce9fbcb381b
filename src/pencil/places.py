"""Where data may lie: below its own folder, and at the places that the person running names.

A table of images or an index of shards may come from anybody. The paths and addresses in it are followed out of its
own folder only where the command line (``pencil --allow PLACE ...``), the variable ``PENCIL_ALLOW`` or the caller of a
reader names the place; never because a file says so. Symbolic links are followed: they are part of the folder's owner's
own machine, and what they lead to is read as an image or not at all.
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
"""Folders and addresses, separated by commas; processes that a command starts inherit it."""
_LEAVES = re.compile(r"^[/\\]|^[A-Za-z]:|(^|[/\\])\.\.([/\\]|$)")


@contextlib.contextmanager
def allowing(places: Sequence[str]) -> Iterator[None]:
    """Allow some places, beside those of the environment, within a block."""
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
    """What the environment allows."""
    return tuple(place.strip() for place in os.environ.get(VARIABLE, "").split(",") if place.strip())


def is_remote(place: str) -> bool:
    """Whether a place is an address, not a path of this machine."""
    return "://" in place


def stays_within(path: str, folder: Path, allow: Sequence[str] = ()) -> bool:
    """Whether a path that a file names, relative to ``folder``, lies below it or below a place that is allowed."""
    if not _LEAVES.search(path):
        return True
    real = os.path.realpath(folder / path)
    places = [place for place in (*allow, *allowed_places()) if not is_remote(place)]
    homes = [folder, *(Path(place).expanduser() for place in places)]
    return any(Path(real).is_relative_to(os.path.realpath(home)) for home in homes)


def may_contact(url: str, allow: Sequence[str] = ()) -> bool:
    """Whether an address is, or lies below, one that is allowed; whole names only: ``//host`` is not ``//host.org``."""
    places = [place.rstrip("/") for place in (*allow, *allowed_places()) if is_remote(place)]
    plain = "\\" not in url and ".." not in url.split("?")[0].split("/")
    return plain and any(url == place or url.startswith(f"{place}/") for place in places)


def remedy(place: str) -> str:
    """What to do about a place that is not allowed."""
    return f"if you trust who wrote it, name the place: pencil --allow {place} COMMAND, or {VARIABLE}={place}"


def common_place(places: Sequence[str]) -> str:
    """The folder, or the part of the address, that the first place and all like it lie in."""
    if not is_remote(places[0]):
        return os.path.commonpath([Path(place).absolute().parent for place in places])
    servers, paths = zip(*map(_parted, filter(is_remote, places)), strict=True)
    shared = [path for server, path in zip(servers, paths, strict=True) if server == servers[0]]
    return f"{servers[0]}{os.path.commonpath(shared)}".rstrip("/")


def _parted(url: str) -> tuple[str, str]:
    """Scheme and server of an address, and the folder of its path."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}", posixpath.dirname(parts.path) or "/"
