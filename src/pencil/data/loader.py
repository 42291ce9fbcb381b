"""Batches of inputs with their row numbers; with workers, torch's DataLoader reads them ahead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from pencil.data.examples import Inputs


@dataclass(frozen=True)
class _Fetched(Dataset[tuple[Tensor, Tensor]]):
    """Inputs as a Dataset whose batched getter hands over whole batches at once."""

    inputs: Inputs

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor]:
        return self.__getitems__([row])

    def __getitems__(self, rows: list[int]) -> tuple[Tensor, Tensor]:
        numbers = torch.as_tensor(rows)
        return self.inputs.fetch(numbers), numbers


def fetch_batches(
    inputs: Inputs, batches: Iterable[Tensor], *, workers: int = 0, pin_memory: bool = False
) -> Iterator[tuple[Tensor, Tensor]]:
    """(inputs (B, ...), rows (B,)) for every batch of row numbers, in order."""
    if workers == 0:
        for rows in batches:
            yield inputs.fetch(rows), rows
        return
    yield from DataLoader(
        _Fetched(inputs),
        batch_sampler=[rows.tolist() for rows in batches],
        num_workers=workers,
        collate_fn=_whole,
        generator=torch.Generator(),  # else it draws from the generator dropout uses
        pin_memory=pin_memory,
    )


def _whole(batch: Any) -> Any:
    """The batched getter already made a batch; there is nothing left to collate."""
    return batch
