"""Text of strangers, as it can be shown: names and ids may hold what a terminal or a spreadsheet obeys."""

from __future__ import annotations

import re

MARKS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufffe\uffff]")
"""Controls, which XML forbids, and marks that would turn the writing direction of what follows them."""
_COMMANDS = re.compile(rf"(?!\n){MARKS.pattern}|[\ud800-\udfff]")
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""How a cell begins that spreadsheets take for a formula, also in wide letters."""


def printable(text: str) -> str:
    """The text with everything escaped that a terminal would obey or could not write; lines stay lines."""
    return _COMMANDS.sub(_escaped, text)


def _escaped(mark: re.Match[str]) -> str:
    return f"\\u{ord(mark[0]):04x}"  # as JSON spells it too


def spreadsheet_cell(text: str) -> str:
    """The text as a cell that no spreadsheet takes for a formula and no terminal obeys."""
    return printable(f"'{text}" if text.startswith(_FORMULA) else text)
