"""Single settings by path, for ``--set``."""

from __future__ import annotations

import tomllib
from typing import Any

from pencil.config.toml import DEEPEST, from_toml
from pencil.errors import ConfigError


def assign(table: dict[str, Any], path: str, value: Any) -> None:
    """Set ``a.b.c`` in nested tables; phases may be named: ``phases.correction.epochs``."""
    *parents, last = path.split(".")
    here: Any = table
    for part in parents:
        here = _child(here, part, path)
    if isinstance(here, list):
        here[_index(here, last, path)] = value
    elif isinstance(here, dict):
        here[last] = value
    else:
        raise _below_plain(last, path)


def parse_assignment(text: str) -> tuple[str, Any]:
    """``path=value`` with the value as TOML; a bare word is a string."""
    path, separator, value = text.partition("=")
    if not separator or not all(part.strip() for part in path.split(".")):
        raise ConfigError(
            f"--set {text!r}: write it as path=value, for example --set optimizer.weight_decay=0.001"
        )
    if path.count(".") >= DEEPEST:
        raise ConfigError(f"--set: the path has {path.count('.') + 1:,} parts, more than {DEEPEST}; check it")
    return path.strip(), _value(value.strip())


def _value(text: str) -> Any:
    try:
        table = from_toml(f"value = {text}", "--set")
    except ConfigError as error:
        if isinstance(error.__cause__, tomllib.TOMLDecodeError):
            return text
        raise
    return table["value"]


def _child(here: Any, part: str, path: str) -> Any:
    if isinstance(here, list):
        return here[_index(here, part, path)]
    if not isinstance(here, dict):
        raise _below_plain(part, path)
    if not isinstance(here.get(part), dict | list):
        here[part] = {}
    return here[part]


def _index(here: list[Any], part: str, path: str) -> int:
    names = [item.get("name") if isinstance(item, dict) else None for item in here]
    if part in names:
        return names.index(part)
    if part.isdecimal() and int(part) < len(here):
        return int(part)
    known = ", ".join([*(str(name) for name in names if name), *map(str, range(len(here)))])
    raise ConfigError(
        f"--set {path}: no entry {part!r}; {f'use one of {known}' if known else 'the list is empty'}"
    )


def _below_plain(part: str, path: str) -> ConfigError:
    return ConfigError(f"--set {path}: {part!r} is below a plain value; set that value itself")
