"""Checks of a grid file, apart from the settings in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pencil.errors import did_you_mean
from pencil.presets import PRESETS

AXES = ("data", "noise", "method", "variant")
CLEAN, ORACLE = CEILINGS = ("clean", "oracle")
MOST_SEEDS = 10_000  # a larger number is a slip
DEFAULT = "default"  # the variant that changes nothing
_FIELDS = ("seeds", "validation", "ceilings", "base", *AXES)
_NAME = re.compile(r"[\w.+-]+")


def check_grid(table: Mapping[str, Any]) -> list[str]:
    """Every mistake in a sentence that names the field, the value and the remedy."""
    return [
        *(
            f"{key}: unknown{did_you_mean(key, _FIELDS) or f'; a grid has {_words(_FIELDS)}'}"
            for key in table
            if key not in _FIELDS
        ),
        *_check_seeds(table.get("seeds", 1)),
        *_check_plain(table),
        *_check_base(table),
        *(mistake for axis in AXES for mistake in _check_axis(table, axis)),
        *_check_variants(table),
    ]


def listed(source: str, mistakes: Sequence[str]) -> str:
    """All mistakes, each on a line of its own."""
    head = "1 mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
    return "\n".join([f"{source}: {head}:", *(f"  {mistake}" for mistake in mistakes)])


def _check_seeds(seeds: Any) -> Iterator[str]:
    numbers = seeds if isinstance(seeds, list) else [seeds]
    whole = all(isinstance(number, int) and not isinstance(number, bool) for number in numbers)
    enough = bool(numbers) and (isinstance(seeds, list) or (whole and 1 <= seeds <= MOST_SEEDS))
    if not whole or not enough or len(set(numbers)) < len(numbers):
        yield f"seeds: {seeds!r} must be how many, from 1 to {MOST_SEEDS:,}, or a list of different whole numbers"


def _check_plain(table: Mapping[str, Any]) -> Iterator[str]:
    share = table.get("validation", 0)
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share < 1:
        yield f"validation: {share!r} must be a share of the training rows, at least 0 and below 1"
    if not isinstance(table.get("ceilings", False), bool):
        yield f"ceilings: {table['ceilings']!r} must be true or false"


def _check_base(table: Mapping[str, Any]) -> Iterator[str]:
    base = table.get("base", {})
    if not isinstance(base, Mapping):
        yield f"base: {base!r} must be a table, [base]"
        return
    places = [("base", base)]
    if isinstance(table.get("data"), list):
        places += [("data", layer) for layer in table["data"] if isinstance(layer, Mapping)]
    for where, layer in places:
        name = layer.get("preset")
        if name is not None and (not isinstance(name, str) or name not in PRESETS):
            hint = did_you_mean(str(name), PRESETS) or f"; known: {', '.join(PRESETS)}"
            yield f"{where}.preset: {name!r} is unknown{hint}"


def _check_axis(table: Mapping[str, Any], axis: str) -> Iterator[str]:
    layers = table.get(axis, [])
    if not isinstance(layers, list) or not all(isinstance(layer, Mapping) for layer in layers):
        yield f"{axis}: must be tables, each begun with [[{axis}]]"
        return
    if not layers and axis != "variant":
        yield f"{axis}: missing; add at least one table [[{axis}]] with a name"
    taken = (
        [DEFAULT]
        if axis == "variant"
        else list(CEILINGS) * (axis == "method" and bool(table.get("ceilings")))
    )
    for number, layer in enumerate(layers):
        name = layer.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            yield f"{axis}.{number}.name: {name!r} must be a word of letters, digits and _ . + -"
        elif name in taken:
            yield f"{axis}.{number}.name: {name!r} is taken; choose another"
        else:
            taken.append(name)


def _check_variants(table: Mapping[str, Any]) -> Iterator[str]:
    if not all(isinstance(table.get(axis, []), list) for axis in ("method", "variant")):
        return
    known = [layer.get("name") for layer in table.get("method", []) if isinstance(layer, Mapping)]
    known += CEILINGS if table.get("ceilings") else []
    for layer in table.get("variant", []):
        methods = layer.get("methods", []) if isinstance(layer, Mapping) else []
        if not isinstance(methods, list):
            yield f"variant.{layer.get('name')}.methods: {methods!r} must be a list of names of methods"
            continue
        for method in methods:
            if method not in known:
                hint = did_you_mean(str(method), map(str, known)) or f"; known: {_words(map(str, known))}"
                yield f"variant.{layer.get('name')}.methods: no method {method!r}{hint}"


def _words(names: Any) -> str:
    return ", ".join(names)
