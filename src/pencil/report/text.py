"""Text of strangers and figures, as people read them."""

from __future__ import annotations

from pencil.escape import MARKS

SPACE = "\u00a0"
"""Between a number and its sign, where no line may break."""


def shown(text: str, limit: int = 120) -> str:
    """A name or an id that may hold anything, in one line of at most ``limit`` characters that can be written."""
    known = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return clipped(MARKS.sub(lambda mark: f"\\u{ord(mark[0]):04x}", known), limit)


def clipped(text: str, limit: int) -> str:
    """At most ``limit`` characters; the middle gives way, for names often differ at their ends."""
    if len(text) <= limit:
        return text
    tail = (limit - 1) // 3
    return f"{text[: limit - 1 - tail]}…{text[len(text) - tail :]}"


def percent(share: float) -> str:
    """0.664 as 66.4 %; what is more than nothing and less than everything stays so."""
    if 0 < share < 0.001:
        return f"<{SPACE}0.1{SPACE}%"
    if 0.999 < share < 1:
        return f">{SPACE}99.9{SPACE}%"
    return f"{100 * share:.1f}{SPACE}%"


def whole_percent(share: float) -> str:
    """0.664 as 66 %."""
    return f"{100 * share:.0f}{SPACE}%"


def count(number: int, one: str, many: str | None = None) -> str:
    """1 label, 2,000 labels."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def sentence(words: str) -> str:
    """Words with a capital letter before and a full stop behind them."""
    return f"{words[:1].upper()}{words[1:]}{'' if words.endswith('.') else '.'}"


def listed(words: list[str]) -> str:
    """a, b and c."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else ""
