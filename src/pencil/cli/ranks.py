"""A message that all ranks have is printed once.

torchrun ends every worker as soon as one has ended, so the others wait for the main one's line. They meet at the store
that torchrun announces; where it cannot be reached nobody waits.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

PATIENCE = timedelta(seconds=30)


def exit_after_main(code: int) -> None:
    """On all ranks but the main one: wait until that has printed, then exit."""
    if os.environ.get("RANK", "0") == "0":
        return
    with contextlib.suppress(Exception):
        _store().wait([_key()], PATIENCE)
    sys.exit(code)


@contextlib.contextmanager
def printing_for_all() -> Iterator[None]:
    """Around what the main rank prints: afterwards the others may exit."""
    try:
        yield
    finally:
        if os.environ.get("WORLD_SIZE", "1") != "1":
            with contextlib.suppress(Exception):
                _store().set(_key(), "1")


def _key() -> str:
    """Workers that were started again have a key of their own."""
    return f"pencil/printed/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"


def _store() -> Any:
    import torch.distributed as dist

    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    make: Any = dist.TCPStore  # type: ignore[attr-defined]  # there, but not declared
    return make(host, port, is_master=False, wait_for_workers=False, timeout=PATIENCE)
