"""Formatting of numbers and sentences."""

from __future__ import annotations

import math

from pencil.estimates import Interval

SPACE = "\u00a0"
"""Non-breaking space between a number and its unit."""
EDGE = 1e-9
"""Tolerance of floats that are meant to be whole."""


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


def share_of(share: float) -> str:
    """Format an asked share with the digits it needs: 10 %, 2.5 %."""
    return f"{100 * share:.4g}{SPACE}%"


def count(number: int, one: str, many: str | None = None) -> str:
    """Format a count with its noun: 1 label, 2,000 labels."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def sentence(words: str) -> str:
    """Capitalize the first letter and end with a full stop."""
    return f"{words[:1].upper()}{words[1:]}{'' if words.endswith('.') else '.'}"


def listed(words: list[str]) -> str:
    """Join words as "a, b and c"."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else ""


def rounded(interval: Interval, rows: int) -> tuple[int, int, int]:
    """A share as numbers of rows: value, low and high, with no more digits than the width of the interval justifies."""
    high = interval.value if interval.high >= 1 else interval.high
    width = (high - interval.low) * rows
    step = 10 ** max(math.floor(math.log10(width / 10)), 0) if width > 0 else 1
    value = round(interval.value * rows / step) * step
    low, high = interval.low * rows, interval.high * rows
    if width > 0:
        low, high = math.floor(low / step + EDGE) * step, math.ceil(high / step - EDGE) * step
    return min(value, rows), max(round(low), 0), min(round(high), rows)


def between(interval: Interval) -> str:
    """Format the bounds of a share: 18.2 to 22.2 %; at least 18.2 %, if it has no upper one."""
    low, high = percent(interval.low), percent(interval.high)
    if interval.high >= 1:
        return f"at least {low}" if interval.low > 0 else "bounds unknown"
    return f"{low.removesuffix(f'{SPACE}%')} to {high}"


def seem_wrong(interval: Interval, rows: int) -> str:
    """The estimated number of wrong labels: about 1,450 of 5,400 labels seem wrong (1,380 to 1,530)."""
    value, low, high = rounded(interval, rows)
    if not high:
        return f"none of {count(rows, 'label')} seems wrong"
    bounds = f" ({low:,} to {high:,})"
    if interval.high >= 1:
        bounds = f" (at least {low:,})" if low else ""
    if not value:
        return f"hardly any of {count(rows, 'label')} seems wrong{bounds}"
    return f"about {value:,} of {count(rows, 'label')} {'seems' if value == 1 else 'seem'} wrong{bounds}"
