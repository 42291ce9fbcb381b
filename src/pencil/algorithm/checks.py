"""Checks of settings, with the same messages for Python, TOML, JSON and ``--set``."""

from __future__ import annotations

LARGEST = 1e6
"""The most that a rate, a weight of a loss or a number of epochs may be.

Larger values have no further effect: a label whose logits are 100 apart is certain, and one step of this size moves
them much further. The product of two such values is far below float32's 3e38, so rows and losses stay finite.
"""


def require(held: bool, field: str, value: object, demand: str) -> None:
    """Refuse a setting: names the field, the value and what it must be."""
    if not held:
        raise ValueError(f"{field}: {value!r} {demand}")


def require_amount(field: str, value: float, shown: object = None, largest: float = LARGEST) -> None:
    """Refuse what is negative, not finite or larger than ``largest``; ``shown`` is what the user gave."""
    given = value if shown is None else shown
    require(not value < 0, field, given, "must not be negative")
    require(value <= largest, field, given, f"must be a number of at most {largest:,.0f}")


def require_amounts(settings: object, *fields: str) -> None:
    """Refuse an object whose fields are not such amounts."""
    for field in fields:
        require_amount(field, getattr(settings, field))


def require_positive(settings: object, *fields: str) -> None:
    """Refuse an object whose fields are not amounts above 0."""
    for field in fields:
        value = getattr(settings, field)
        require(not value <= 0, field, value, "must be above 0")
        require_amount(field, value)
