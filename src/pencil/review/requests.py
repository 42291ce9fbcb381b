"""The requests that change or reserve something, as the page sends them."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from pencil.review.history import Who

LARGEST = 1 << 53  # largest exact integer in JavaScript; SQLite's limit is 2^63
MOST_AT_ONCE = 96  # rows of one request


def _plain(text: str) -> str:
    if any(ord(letter) < 32 or 127 <= ord(letter) < 160 for letter in text):
        raise ValueError("control characters are not allowed")
    return text


Number = Annotated[int, Field(ge=0, le=LARGEST)]
Name = Annotated[str, AfterValidator(_plain)]


class Plain(BaseModel):
    """A part of a request that must be exactly as declared."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True, strict=True)


class Asked(Plain):
    """A request for the next rows, ``count`` at once, with its client and the session that the client loaded."""

    client: Name = Field(min_length=1, max_length=64)
    count: int = Field(default=1, ge=1, le=MOST_AT_ONCE)
    identity: Name | None = Field(default=None, max_length=64)


class SeenRow(Plain):
    """A row as the client saw it."""

    row: Number
    version: Number


class Signed(Asked):
    """A request that changes the history; its ticket makes repeated requests harmless."""

    reviewer: Name = Field(min_length=1, max_length=80)
    ticket: Name = Field(min_length=1, max_length=64)

    @property
    def who(self) -> Who:
        """The sender of the request."""
        return Who(self.reviewer, self.client)


class Decided(Signed):
    """A request to act on rows."""

    items: list[SeenRow] = Field(min_length=1, max_length=MOST_AT_ONCE)
    action: Name = Field(max_length=16)
    label: Number | None = None


class TakenBack(Signed):
    """A request to undo an entry, by default all of the client's newest request."""

    entry: Number | None = None
