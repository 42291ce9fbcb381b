"""SIGINT and SIGTERM as a request to stop after the current step, with a checkpoint."""

from __future__ import annotations

import os
import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any

ECHO_SECONDS = 5.0  # torchrun forwards to its workers what the terminal has already sent to all


class StopRequest:
    """While entered, the first signal sets ``requested``; a second one has its usual effect.

    Under torchrun one Ctrl-C arrives twice, so there a second signal within ``ECHO_SECONDS`` counts as the first.
    """

    def __init__(self) -> None:
        self.requested = False
        self._echoes_until: float | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopRequest:
        # Python lets only the main thread set handlers; elsewhere (a notebook's executor) signals keep their meaning.
        self._echoes_until = None
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        now = time.monotonic()
        if "TORCHELASTIC_RUN_ID" not in os.environ:
            self._restore()
        elif self._echoes_until is None:
            self._echoes_until = now + ECHO_SECONDS
        elif now > self._echoes_until:
            self._restore()
            os.kill(os.getpid(), number)

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler or signal.SIG_DFL)  # None: installed from C
        self._before.clear()
