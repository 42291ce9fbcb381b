"""The table of kinds: built-in ones, those of installed packages, and those registered by hand."""

from __future__ import annotations

import functools
import operator
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema

from pencil.errors import ConfigError
from pencil.imports import installed_objects
from pencil.kinds.built_in import BUILT_IN
from pencil.kinds.kind import Kind
from pencil.kinds.sections import DataSection

GROUP = "pencil.kinds"
"""The entry point group in which packages name their kinds."""
_BUILT_IN = {kind.name: kind for kind in BUILT_IN}
_added: dict[str, Kind] = {}
_watchers: list[Callable[[], None]] = []


def register(kind: Kind) -> Kind:
    """Add a kind of data to the table; one of the same name that was added before is replaced.

    Returns:
        The kind itself, so that a module can define and register it in one statement.
    """
    if kind.name in _BUILT_IN:
        raise ConfigError(f"kind {kind.name!r} is built in; choose another name")
    if _added.get(kind.name) is not kind:
        _added[kind.name] = kind
        for changed in _watchers:
            changed()
    return kind


def kinds() -> Mapping[str, Kind]:
    """All kinds by name, in the order in which they are tried: added ones first."""
    _load_installed()
    return {**_added, **_BUILT_IN}


def kind_of(data: DataSection) -> Kind:
    """The entry of the table that a data section belongs to."""
    return kinds()[data.kind]


def recognise(path: str) -> Kind:
    """The kind of data at a path, by its name and content."""
    place = Path(path).expanduser()
    for kind in kinds().values():
        if kind.recognises(place):
            return kind
    problem = "is neither a folder nor" if place.exists() else "does not exist; give a folder or"
    raise ConfigError(
        f"data {path!r} {problem} a file ending in {_suffixes()} "
        "(for your own data set give its function: package.module:function)"
    )


def on_change(call: Callable[[], None]) -> None:
    """Call a function whenever a kind is added."""
    _watchers.append(call)


class AnyKind:
    """Annotates a field that takes the section of any kind in the table, chosen by ``kind``."""

    def __get_pydantic_core_schema__(self, _source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        # The table as it is now: installed packages are loaded later, and the schema is then built again.
        # Reversed: the most common kinds are the last that are tried.
        sections = dict.fromkeys(kind.section for kind in (*reversed(BUILT_IN), *_added.values()))
        union = functools.reduce(operator.or_, sections)
        return handler.generate_schema(Annotated[union, Field(discriminator="kind")])


@functools.cache
def _load_installed() -> None:
    """Register the kinds that installed packages name; one that fails costs a warning, not the command."""
    for name, found in installed_objects(GROUP):
        problem = _problem(found)
        if problem is None:
            register(found)
        else:
            warnings.warn(f"kind of data {name!r} is left out: {problem}", stacklevel=2)


def _problem(found: Any) -> str | None:
    if isinstance(found, Exception):
        return f"its package fails with {type(found).__name__}: {found}; fix or remove the package"
    if not isinstance(found, Kind):
        return (
            f"its package names a {type(found).__name__}, not a pencil.kinds.Kind; fix or remove the package"
        )
    return f"{found.name!r} is built in; rename it" if found.name in _BUILT_IN else None


def _suffixes() -> str:
    found = list(dict.fromkeys(suffix for kind in (*BUILT_IN, *_added.values()) for suffix in kind.suffixes))
    return f"{', '.join(found[:-1])} or {found[-1]}"
