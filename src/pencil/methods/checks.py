"""What the methods' settings must satisfy, said in one way."""

from __future__ import annotations


def require(held: bool, field: str, value: object, demand: str) -> None:
    """Refuse a setting: names the field, the value and what it must be."""
    if not held:
        raise ValueError(f"{field}: {value!r} {demand}")
