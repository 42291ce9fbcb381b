"""Formatting of untrusted text, numbers and sentences."""

from __future__ import annotations

from pencil.escape import MARKS

SPACE = "\u00a0"
"""Non-breaking space between a number and its unit."""


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


def percent(share: float) -> str:
    """Format 0.664 as 66.4 %; shares strictly between 0 and 1 are never shown as 0 % or 100 %."""
    if 0 < share < 0.001:
        return f"<{SPACE}0.1{SPACE}%"
    if 0.999 < share < 1:
        return f">{SPACE}99.9{SPACE}%"
    return f"{100 * share:.1f}{SPACE}%"


def whole_percent(share: float) -> str:
    """Format 0.664 as 66 %."""
    return f"{100 * share:.0f}{SPACE}%"


def count(number: int, one: str, many: str | None = None) -> str:
    """Format a count with its noun: 1 label, 2,000 labels."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def sentence(words: str) -> str:
    """Capitalize the first letter and end with a full stop."""
    return f"{words[:1].upper()}{words[1:]}{'' if words.endswith('.') else '.'}"


def listed(words: list[str]) -> str:
    """Join words as "a, b and c"."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else ""
