"""What a page shows, as a short text: a page that was loaded from another run must not decide on this one's rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from pencil.errors import PencilError
from pencil.identity import run_id
from pencil.review.session import Session
from pencil.run import RunDirectory


class OtherRunError(PencilError):
    """The page was loaded from another run, or shows labels that changed since."""

    def __init__(self) -> None:
        super().__init__(
            "identity: the page shows another run, or labels that have changed since; nothing was recorded, reload it"
        )


def digest_of(words: Iterable[str]) -> str:
    """A digest of words, such as the names of classes."""
    return hashlib.sha256("\0".join(words).encode("utf-8", "surrogateescape")).hexdigest()


def identity_of(directory: RunDirectory, *words: str) -> str:
    """The identity of a session: a digest of its run's id and folder and of the words that tell what it shows."""
    return digest_of((run_id(directory.path) or "", str(directory.path.resolve()), *words))


def check_identity(session: Session, loaded: str | None) -> None:
    """Check that a request comes from a page that shows this session; a client without a page sends no identity.

    Raises:
        OtherRunError: The page was loaded from another session.
    """
    if loaded is not None and loaded != session.identity:
        raise OtherRunError
