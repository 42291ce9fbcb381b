"""Finds near-identical rows and outliers at the end of a run, and writes them into its folder.

Only inputs that are vectors are compared: they are features, such as embeddings. The main rank compares all rows of all
splits. The result depends on the data alone, so it is the same for any number of ranks and after any resume.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from pencil.data import Examples
from pencil.estimates import neighbours as near
from pencil.results import NearRows, write_neighbours
from pencil.results.neighbours import TRAIN
from pencil.run.directory import RunDirectory
from pencil.run.passes import BATCH, is_vector
from pencil.run.sources import Prepared
from pencil.stores import free_memory

MOST_ROWS = 1_000_000
"""Rows of all splits that are compared; a million take minutes on two cores."""
BYTES = 12
"""Bytes for each feature of each row: the features, their copy, and the distances."""


def leave_neighbours(directory: RunDirectory, prepared: Prepared) -> None:
    """Find near-identical rows and outliers, and write them; nothing if the rows cannot be compared."""
    found = find_neighbours(prepared)
    if found is not None:
        write_neighbours(directory.path, found)


def find_neighbours(prepared: Prepared) -> NearRows | None:
    """Near-identical rows of all splits, and outliers of the training rows.

    None if the inputs are no vectors, or if there are too few or too many of them.
    """
    splits = {
        name: part for name in (TRAIN, "validation", "test") if (part := getattr(prepared, name)) is not None
    }
    sizes = {name: len(part) for name, part in splits.items()}
    rows = sum(sizes.values())
    if not near.LEAST_ROWS <= rows <= MOST_ROWS or not _comparable(list(splits.values()), rows):
        return None
    features = near.centred(lambda: _passes(list(splits.values())), rows)
    found = near.nearest(features)
    groups = dict(zip(sizes, near.duplicate_groups(found).split(list(sizes.values())), strict=True))
    return NearRows.of(groups, near.outliers(found)[: sizes[TRAIN]], prepared.train.labels.hard)


def _comparable(parts: list[Examples], rows: int) -> bool:
    """Whether all inputs are vectors of the same width that fit into memory."""
    inputs = [part.inputs for part in parts if len(part)]
    if not all(map(is_vector, inputs)):
        return False
    widths = {each.fetch(torch.tensor([0])).shape[1] for each in inputs}
    return len(widths) == 1 and BYTES * rows * min(*widths, near.MOST_FEATURES) < free_memory()


def _passes(parts: list[Examples]) -> Iterator[tuple[Tensor, Tensor]]:
    first = 0
    for part in parts:
        for places in torch.arange(len(part)).split(BATCH):
            yield first + places, part.inputs.fetch(places)
        first += len(part)
