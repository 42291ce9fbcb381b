"""Explain faults of the machine in one line with a remedy: memory, open files, disk space.

Libraries report them with many error types, some only by their message.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator

MEMORY = (
    "out of memory: use a smaller train.batch_size, fewer train.workers, a smaller store or a larger machine"
)
FILES = "too many open files: raise the limit (ulimit -n 4096), or use fewer train.workers"
SPACE = "no space left on the disk: free some space"
WORKER = "a loader worker died, usually out of memory: use fewer train.workers or a larger machine"
BY_NUMBER = {
    errno.ENOMEM: MEMORY,
    errno.EMFILE: FILES,
    errno.ENFILE: FILES,
    errno.ENOSPC: SPACE,
    errno.EDQUOT: SPACE,
    errno.EFBIG: "a file grew beyond the limit for files (ulimit -f): raise it",
    errno.EIO: "the disk failed to read or write: check it",
    errno.EROFS: "the disk is read-only: make it writable",
}
BY_WORDS = {
    "can't allocate memory": MEMORY,
    "Cannot allocate memory": MEMORY,
    "can't start new thread": MEMORY,
    "Too many open files": FILES,
    "items of ancdata": FILES,  # a file descriptor could not be passed to a worker
    "No space left on device": SPACE,
    " requested and ": SPACE,  # numpy, which keeps the number of the error to itself
    "File too large": BY_NUMBER[errno.EFBIG],
    "DataLoader worker (pid": WORKER,
}


def fault_of(error: BaseException) -> str | None:
    """The machine's fault behind an error, with the remedy; None for other errors."""
    return next(filter(None, map(_words, _chain(error))), None)


def _words(error: BaseException) -> str | None:
    if isinstance(error, MemoryError):
        return MEMORY
    if isinstance(error, OSError) and error.errno in BY_NUMBER:
        return BY_NUMBER[error.errno]
    if isinstance(error, OSError | RuntimeError) or type(error).__name__ == "SafetensorError":
        return next((words for said, words in BY_WORDS.items() if said in str(error)), None)
    return None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
