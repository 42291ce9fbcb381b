"""Print a message that all ranks have only once.

torchrun stops all workers as soon as one exits, so the other ranks wait until the main rank has printed. They
synchronize through torchrun's store; if it cannot be reached, they do not wait.
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
    """On all ranks except the main one: wait until the main rank has printed, then exit."""
    if os.environ.get("RANK", "0") == "0":
        return
    with contextlib.suppress(Exception):
        _store().wait([_key()], PATIENCE)
    sys.exit(code)


@contextlib.contextmanager
def printing_for_all() -> Iterator[None]:
    """Let the other ranks exit after the main rank has run this block, which prints."""
    try:
        yield
    finally:
        if os.environ.get("WORLD_SIZE", "1") != "1":
            with contextlib.suppress(Exception):
                _store().set(_key(), "1")


def _key() -> str:
    """The key in the store; restarted workers have a new one."""
    return f"pencil/printed/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"


def _store() -> Any:
    import torch.distributed as dist

    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    make: Any = dist.TCPStore  # type: ignore[attr-defined]  # missing in the stubs
    return make(host, port, is_master=False, wait_for_workers=False, timeout=PATIENCE)
