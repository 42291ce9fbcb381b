"""Settings laid over settings: what a grid's tables are made of."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pencil.config import assign
from pencil.errors import ConfigError

Table = dict[str, Any]
TAGS = ("name", "kind")  # what chooses among several tables
_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)\}")
_SETTING = re.compile(r"\$\{([a-z_]\w*(?:\.\w+)+)\}")


def lay_over(base: Table, settings: Mapping[str, Any]) -> Table:
    """A copy of ``base`` with ``settings`` over it.

    Tables are laid over tables value by value; one that names another ``name`` or ``kind`` takes the other's place
    whole, for another method or model has other settings. Phases go by their names, as in ``--set``.
    """
    result: Table = _copied(base)
    for path, value in _leaves(result, settings):
        assign(result, path, _copied(value))
    return result


def _copied(value: Any) -> Any:
    """Plain values again; several times as fast as ``deepcopy``, and a grid copies thousands of tables."""
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def _leaves(base: Any, settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in settings.items():
        under = _entry(base, key)
        if isinstance(value, Mapping) and isinstance(under, dict | list) and not _replaces(under, value):
            yield from _leaves(under, value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _entry(base: Any, key: str) -> Any:
    if isinstance(base, list):
        return next((item for item in base if isinstance(item, dict) and item.get("name") == key), None)
    return base.get(key)


def _replaces(under: Any, value: Mapping[str, Any]) -> bool:
    return isinstance(under, dict) and any(tag in value and value[tag] != under.get(tag) for tag in TAGS)


def resolve_settings(table: Table) -> Table:
    """With every value that is ``${section.setting}`` replaced by that setting's own."""

    def resolve(value: Any, path: str) -> Any:
        match = _SETTING.fullmatch(value) if isinstance(value, str) else None
        return value if match is None else _lookup(table, match[1], path)

    resolved: Table = _map(table, resolve)
    return resolved


def expand_variables(table: Table) -> Table:
    """With ``${NAME}`` in strings replaced by the environment's value; raises one error for all that are not set."""
    missing: dict[str, str] = {}

    def expand(value: Any, path: str) -> Any:
        if not isinstance(value, str):
            return value
        missing.update({name: path for name in _VARIABLE.findall(value) if name not in os.environ})
        return _VARIABLE.sub(lambda match: os.environ.get(match[1], match[0]), value)

    result: Table = _map(table, expand)
    if missing:
        raise ConfigError(
            "\n".join(
                f"{path}: ${{{name}}} is not set; export {name}=..., or write the value"
                for name, path in missing.items()
            )
        )
    return result


def _lookup(table: Any, wanted: str, path: str) -> Any:
    here = table
    for part in wanted.split("."):
        here = _entry(here, part) if isinstance(here, dict | list) else None
    if here is None:
        raise ConfigError(
            f"{path}: '${{{wanted}}}', but there is no setting {wanted}; set it, or write the value"
        )
    return here


def _map(value: Any, change: Any, path: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _map(item, change, f"{path}.{key}" if path else key) for key, item in value.items()}
    if isinstance(value, list):
        return [_map(item, change, f"{path}.{index}") for index, item in enumerate(value)]
    return change(value, path)
