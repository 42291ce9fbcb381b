"""TOML out (the standard library reads it but does not write it)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from pencil.errors import ConfigError


def to_toml(table: Mapping[str, Any]) -> str:
    """A nested dictionary of plain values as TOML; None is left out."""
    return "\n".join(_table_lines(table, ())).strip() + "\n"


def _table_lines(table: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    """Plain values first, as TOML demands, then sub-tables under their full names."""
    plain, nested = [], []
    for key, value in table.items():
        if isinstance(value, Mapping):
            header = ".".join(_key(part) for part in (*path, key))
            nested += ["", f"[{header}]", *_table_lines(value, (*path, key))]
        elif _is_table_list(value):
            header = ".".join(_key(part) for part in (*path, key))
            for item in value:
                nested += [
                    "",
                    f"[[{header}]]",
                    *(f"{_key(k)} = {_value(v)}" for k, v in item.items() if v is not None),
                ]
        elif value is not None:
            plain.append(f"{_key(key)} = {_value(value)}")
    return plain + nested


def _is_table_list(value: Any) -> bool:
    return (
        isinstance(value, list | tuple) and bool(value) and all(isinstance(item, Mapping) for item in value)
    )


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items() if v is not None) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    if isinstance(value, float):
        return repr(value)  # inf and nan are spelled the same in TOML
    if isinstance(value, str):
        return _string(value)
    if value is None:
        raise ConfigError("a list in the settings holds None, which TOML cannot say; leave it out")
    return json.dumps(value)  # integers and booleans are spelled the same


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _string(key)


def _string(text: str) -> str:
    # JSON escapes as TOML does, but for one character that TOML wants escaped and JSON leaves.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", r"\u007f")
