"""Batches of inputs with their row numbers; with workers, torch's DataLoader reads them ahead.

Where rows are stored in blocks (shards), a block belongs to one worker. The DataLoader gives task i to worker i modulo
their number; so every batch becomes one task per worker, with the rows whose blocks that worker owns, and the parts are
put together again in the batch's order.
"""

from __future__ import annotations

import itertools
import resource
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from pencil.data.inputs import Inputs, blocks_of
from pencil.data.order import Blocks
from pencil.errors import PencilError, RunError

Indices = NDArray[np.int64]
SPARE, PER_WORKER = 32, 8  # open files: pipes, and tensors under way, each of which takes one


@dataclass(frozen=True)
class _Fetched(Dataset[tuple[Tensor, Tensor] | PencilError]):
    """Inputs as a Dataset whose batched getter hands over whole batches at once."""

    inputs: Inputs

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor] | PencilError:
        return self.__getitems__(np.array([row]))

    def __getitems__(self, indices: Indices) -> tuple[Tensor, Tensor] | PencilError:
        """A mistake that a user can fix travels as a value: raised here, it would arrive wrapped in a traceback."""
        numbers = torch.from_numpy(indices)
        try:
            return (self.inputs.fetch(numbers) if len(indices) else torch.empty(0)), numbers
        except PencilError as error:
            return error


class Owners:
    """Which worker reads which block: each new block goes to the next worker, so that all share every window."""

    def __init__(self, blocks: Blocks, workers: int) -> None:
        self.workers = workers
        self._blocks = blocks
        self._owner: dict[int, int] = {}

    def of(self, indices: Tensor) -> Tensor:
        """(B,) the worker that reads each row (B,)."""
        sources, places = self._blocks.sources_of(indices).unique(return_inverse=True)
        taken = self._owner
        owners = [taken.setdefault(source, len(taken) % self.workers) for source in sources.tolist()]
        return torch.tensor(owners, dtype=torch.int64)[places]


def fetch_batches(
    inputs: Inputs, batches: Iterable[Tensor], *, workers: int = 0, pin_memory: bool = False
) -> Iterator[tuple[Tensor, Tensor]]:
    """(inputs (B, ...), indices (B,)) for every batch of row numbers, in order."""
    blocks = blocks_of(inputs)
    if workers == 0:
        for indices in batches:
            yield inputs.fetch(indices), indices
    elif blocks is None or workers == 1:
        yield from _read_ahead(inputs, batches, workers, pin_memory=pin_memory)
    else:
        for values, indices in _by_owner(inputs, batches, Owners(blocks, workers)):
            yield (values.pin_memory() if pin_memory else values), indices


def _by_owner(inputs: Inputs, batches: Iterable[Tensor], owners: Owners) -> Iterator[tuple[Tensor, Tensor]]:
    """Whole batches, each read by all workers: every one a part, perhaps an empty one, in turn."""
    asked: deque[tuple[Tensor, Tensor]] = deque()

    def tasks() -> Iterator[Tensor]:
        for indices in batches:
            asked.append((indices, owners.of(indices)))
            for worker in range(owners.workers):
                yield indices[asked[-1][1] == worker]

    fetched = _read_ahead(inputs, tasks(), owners.workers)
    while parts := [values for values, _ in itertools.islice(fetched, owners.workers)]:
        indices, owner = asked.popleft()
        yield _joined(parts, owner), indices


def _joined(parts: Sequence[Tensor], owner: Tensor) -> Tensor:
    """The parts of a batch, one per worker, in the order of the rows they belong to (B,)."""
    full = next(part for part in parts if len(part))
    values = torch.empty(len(owner), *full.shape[1:], dtype=full.dtype)
    for worker, part in enumerate(parts):
        if len(part):
            values[owner == worker] = part
    return values


def _read_ahead(
    inputs: Inputs, tasks: Iterable[Tensor], workers: int, *, pin_memory: bool = False
) -> Iterator[tuple[Tensor, Tensor]]:
    """What the workers fetched, task by task in order."""
    _check_descriptors(workers)
    loader: DataLoader[Any] = DataLoader(
        _Fetched(inputs),
        # Arrays, made when they are needed: no row costs a Python object.
        batch_sampler=(indices.numpy() for indices in tasks),  # type: ignore[misc]  # the stub wants lists
        num_workers=workers,
        collate_fn=_whole,
        generator=torch.Generator(),  # else it draws from the generator dropout uses
        pin_memory=pin_memory,
    )
    for fetched in loader:
        if isinstance(fetched, PencilError):
            raise fetched
        yield fetched


def _check_descriptors(workers: int) -> None:
    """Refuse workers that would run out of open files: one that cannot send its batch would wait for ever."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    used, needed = len(list(Path("/dev/fd").iterdir())), SPARE + PER_WORKER * workers
    if limit != resource.RLIM_INFINITY and used + needed > limit:
        raise RunError(
            f"train.workers = {workers}: they need {needed} open files beside the {used} there are, but the limit is "
            f"{limit}; raise it (ulimit -n 4096), or use fewer train.workers"
        )


def _whole(batch: Any) -> Any:
    """The batched getter already made a batch; there is nothing left to collate."""
    return batch
