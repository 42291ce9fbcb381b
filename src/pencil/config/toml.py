"""Read TOML with limits, and write TOML (the standard library does not).

The standard library's reader takes quadratic time and memory in the parts of a key and recurses as deep as the text.
Long keys are therefore rejected before reading, and deep nesting after it.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from pencil.errors import ConfigError
from pencil.kinds.sections import INTEGERS

DEEPEST = 32  # maximum nesting of tables and arrays, and parts of a key
_TEXT = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*+(?:""")?'  # without an end, everything that follows is text
    r"|'''(?:[^']|'(?!''))*+(?:''')?"
    r'|"(?:[^"\\\n]|\\.)*+"?'
    r"|'[^'\n]*+'?"
    r"|#[^\n]*+",
    re.DOTALL,
)
_LONG_KEY = re.compile(rf"(?<![\w-])(?:[\w-]++[ \t]*+\.[ \t]*+){{{DEEPEST}}}")


def from_toml(text: str, source: str) -> dict[str, Any]:
    """Parse TOML; a ``ConfigError`` names the source if it is invalid."""
    if _LONG_KEY.search(_TEXT.sub("_", text)):
        raise ConfigError(f"{source}: a key has more than {DEEPEST} parts; shorten it")
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: also an integer of more than 4,300 digits
        raise ConfigError(f"{source}: not valid TOML: {error}; fix it") from error
    _check(table, source)
    return table


def _check(table: dict[str, Any], source: str) -> None:
    """Check the nesting depth and that integers have at most 64 bits.

    Raises:
        ConfigError: The table exceeds a limit.
    """
    level: list[Any] = [table]
    for _ in range(DEEPEST + 1):
        strange = [value for value in level if isinstance(value, int) and not -INTEGERS <= value < INTEGERS]
        if strange:
            raise ConfigError(f"{source}: the integer {strange[0]} has more than 64 bits; use a smaller one")
        level = [inner for value in level for inner in _inside(value)]
        if not level:
            return
    raise ConfigError(f"{source}: tables and arrays are nested more than {DEEPEST} deep; flatten them")


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def to_toml(table: Mapping[str, Any]) -> str:
    """Write a nested dictionary of plain values as TOML; None is left out."""
    return "\n".join(_table_lines(table, ())).strip() + "\n"


def _table_lines(table: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    """Plain values first, as TOML requires, then sub-tables under their full names."""
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
        return repr(value)  # inf and nan are written the same in TOML
    if isinstance(value, str):
        return _string(value)
    if value is None:
        raise ConfigError("a list in the settings contains None, which TOML does not support; leave it out")
    return json.dumps(value)  # integers and booleans are written the same


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _string(key)


def _string(text: str) -> str:
    # JSON escapes like TOML, except for one character that only TOML requires to be escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", r"\u007f")
