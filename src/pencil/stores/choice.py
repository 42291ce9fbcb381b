"""The store that one word of the configuration names, or the first that fits.

dense           whole rows in memory
dense:mapped    whole rows in a file that the system pages in and out
top:8           the 8 largest entries of each row in memory
top:8:mapped    the same in a file
auto            the first of dense, top:8, top:8:mapped that fits into a share of the memory
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pencil.stores.rows import DenseStore, TopStore, words

GRAMMAR = r"auto|dense(:mapped)?|top:[1-9]\d*(:mapped)?"
SHARE = 0.6  # of the free memory; the network, its gradients and the loader need the rest
GROUPS, GROUPS_ROOT = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
_GROUP_FILES = (  # of both versions: the limit, the use, and what of the use is cache that the system can drop
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
USUAL_K = 8  # keeps 99.8 % of the labels of whole rows on 200 classes, see benchmarks/cub_stores.py


@dataclass(frozen=True)
class StoreChoice:
    """A store, not made yet.

    Attributes:
        k: How many entries of a row are kept; None for whole rows.
        mapped: Whether rows live in a file.
    """

    k: int | None = None
    mapped: bool = False

    @classmethod
    def parse(cls, word: str) -> StoreChoice:
        """From a word of the grammar above, but for ``auto``."""
        if not re.fullmatch(GRAMMAR, word) or word == "auto":
            raise ValueError(f"store: {word!r} is unknown; use dense, dense:mapped, top:8 or top:8:mapped")
        _, *rest = word.split(":")
        return cls(next((int(part) for part in rest if part.isdigit()), None), "mapped" in rest)

    def __str__(self) -> str:
        name = "dense" if self.k is None else f"top:{self.k}"
        return f"{name}:mapped" if self.mapped else name

    def bytes_per_row(self, row_width: int) -> int:
        """What one row takes."""
        return 4 * row_width if self._whole(row_width) else 2 * words(row_width, self.k or 0)

    def make(self, num_rows: int, row_width: int, folder: Path | None = None) -> DenseStore | TopStore:
        """The store; a mapped one keeps its file in ``folder``, or where the system has its temporary files.

        Where k entries are all there are, rows stay whole.
        """
        place = (folder or Path(tempfile.gettempdir())) if self.mapped else None
        if self.k is None or self._whole(row_width):
            return DenseStore(num_rows, row_width, place)
        return TopStore(num_rows, row_width, self.k, place)

    @property
    def in_memory(self) -> StoreChoice:
        """The same rows in memory."""
        return StoreChoice(self.k)

    def keeps_top(self, row_width: int) -> bool:
        """Whether rows are cut."""
        return not self._whole(row_width)

    def _whole(self, row_width: int) -> bool:
        return self.k is None or self.k >= row_width


def choose_store(num_rows: int, row_width: int, *, can_cut: bool, memory: int) -> StoreChoice:
    """The first choice whose rows fit; the last one where none does.

    Args:
        num_rows: Rows this process owns.
        row_width: W.
        can_cut: Whether the method works on cut rows.
        memory: Free bytes this process may count as its own.
    """
    cuts = [StoreChoice(USUAL_K), StoreChoice(USUAL_K, mapped=True)]
    choices = [StoreChoice(), *(cuts if can_cut and row_width > USUAL_K else [StoreChoice(mapped=True)])]
    fitting = (choice for choice in choices if num_rows * choice.bytes_per_row(row_width) <= SHARE * memory)
    return next(fitting, choices[-1])


def free_memory() -> int:
    """Bytes that are free, for one of the processes torchrun started on this host."""
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    return _available() // processes


def _available() -> int:
    """Bytes that are free on the host and within the limits of this process, such as those of a container."""
    limited = (_of_group(folder) for folder in _group_folders())
    return min([_of_host(), *(free for free in limited if free is not None)])


def _of_host() -> int:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(line for line in lines if line.startswith("MemAvailable:"))
        return int(free.split()[1]) * 1024
    except (OSError, StopIteration, ValueError):  # not Linux: half of what there is
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def _group_folders() -> Iterator[Path]:
    """The folders of this process's control groups, and those above, whose limits hold for it too."""
    try:
        lines = [line.split(":", 2) for line in GROUPS.read_text().splitlines()]
    except OSError:  # not Linux
        return
    for _, controllers, path in (line for line in lines if len(line) == 3):
        if controllers and "memory" not in controllers.split(","):
            continue
        # A container may see its own group as the root, and not the path: what is not there has no limit.
        root, parts = GROUPS_ROOT / ("memory" if controllers else ""), path.strip("/").split("/")
        yield from (root.joinpath(*parts[:depth]) for depth in range(len(parts) + 1))


def _of_group(folder: Path) -> int | None:
    """Bytes that the limit of a control group leaves free; None without one."""
    for limit, use, cache in _GROUP_FILES:
        try:
            most, used = (int((folder / name).read_text()) for name in (limit, use))
            return max(0, most - used + _cached(folder, cache))
        except (OSError, ValueError):  # no such file, or the limit is the word max
            continue
    return None


def _cached(folder: Path, name: str) -> int:
    try:
        lines = (folder / "memory.stat").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(f"{name} "))
    except (OSError, StopIteration, ValueError):
        return 0
