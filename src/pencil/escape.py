"""Escape untrusted text: names and ids may contain control sequences or spreadsheet formulas."""

from __future__ import annotations

import re

MARKS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufffe\uffff]")
"""Control characters, which XML forbids, and marks that change the writing direction."""
_COMMANDS = re.compile(rf"(?!\n){MARKS.pattern}|[\ud800-\udfff]")
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""First characters of cells that spreadsheets treat as formulas, including full-width forms."""


def printable(text: str) -> str:
    """Escape characters that a terminal would interpret or cannot print; line breaks are kept."""
    return _COMMANDS.sub(_escaped, text)


def _escaped(mark: re.Match[str]) -> str:
    return f"\\u{ord(mark[0]):04x}"  # the same form as in JSON


def utf8(name: str) -> str:
    """An id that can be written as UTF-8; the name of a file may be any bytes."""
    return name.encode("utf-8", "backslashreplace").decode()


def spreadsheet_cell(text: str) -> str:
    """Escape the text for a cell, so that spreadsheets do not treat it as a formula."""
    return printable(f"'{text}" if text.startswith(_FORMULA) else text)


def shown(text: str, limit: int = 120) -> str:
    """Escape a name or an id for display on one line of at most ``limit`` characters."""
    known = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return clipped(MARKS.sub(lambda mark: f"\\u{ord(mark[0]):04x}", known), limit)


def clipped(text: str, limit: int) -> str:
    """Shorten to ``limit`` characters by cutting the middle, because names often differ at their ends."""
    if len(text) <= limit:
        return text
    tail = (limit - 1) // 3
    return f"{text[: limit - 1 - tail]}…{text[len(text) - tail :]}"
