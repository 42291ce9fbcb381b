"""``neighbours.json`` and ``neighbours.safetensors``: near-identical rows of a run, and rows far from all others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from pencil.identity import run_id
from pencil.results.files import damaged, read_record, read_tensors, write_record, write_tensors

NEIGHBOURS, ARRAYS = "neighbours.json", "neighbours.safetensors"
TRAIN = "train"
NO_GROUP = -1
REMEDY = "remove it to use the run without near-identical rows and outliers"

Count = Annotated[int, Field(ge=0)]


@dataclass(frozen=True)
class NeighbourCounts:
    """How many near-identical rows and outliers there are.

    Attributes:
        duplicate_groups: Groups of near-identical rows, of all splits.
        duplicate_rows: Training rows in such groups.
        differing_groups: Groups whose training rows have different given labels.
        differing_rows: Training rows in these groups.
        outliers: Training rows far from all others.
        test_rows_in_train: Test rows that are near-identical to a training row.
        validation_rows_in_train: Validation rows that are near-identical to a training row.
    """

    duplicate_groups: Count
    duplicate_rows: Count
    differing_groups: Count
    differing_rows: Count
    outliers: Count
    test_rows_in_train: Count
    validation_rows_in_train: Count


@dataclass(frozen=True)
class NearRows:
    """Near-identical rows and outliers of a run.

    Attributes:
        counts: How many there are.
        groups: By split, the number (N,) of each row's group of near-identical rows; ``NO_GROUP`` for none.
        differing: (G,) bool, whether the training rows of a group have different given labels.
        outlier: (N,) for training rows: how many times farther from its neighbours the row is than the median row;
            0 for rows that are no outliers.
    """

    counts: NeighbourCounts
    groups: Mapping[str, Tensor]
    differing: Tensor
    outlier: Tensor

    @classmethod
    def of(cls, groups: Mapping[str, Tensor], outlier: Tensor, given: Tensor) -> NearRows:
        """From the groups by split, and the outlier scores (N,) and given classes (N,) of the training rows."""
        train = groups[TRAIN]
        number = max((int(each.max()) + 1 for each in groups.values() if len(each)), default=0)
        differing = _differing(train, given, number)
        grouped = train[train != NO_GROUP]
        counts = NeighbourCounts(
            duplicate_groups=number,
            duplicate_rows=len(grouped),
            differing_groups=int(differing.sum()),
            differing_rows=int(differing[grouped].sum()),
            outliers=int((outlier > 0).sum()),
            test_rows_in_train=_shared(groups.get("test"), grouped),
            validation_rows_in_train=_shared(groups.get("validation"), grouped),
        )
        return cls(counts, groups, differing, outlier)

    def has_different_labels(self) -> Tensor:
        """(N,) bool: the training row is near-identical to one with another given label."""
        train = self.groups[TRAIN]
        found = train != NO_GROUP
        found[found.clone()] = self.differing[train[found]]
        return found


def write_neighbours(folder: Path, found: NearRows) -> None:
    """Write both files; the counts come last and mark the arrays as complete."""
    (folder / NEIGHBOURS).unlink(missing_ok=True)
    arrays = {f"groups/{split}": each.int() for split, each in found.groups.items() if len(each)}
    arrays |= {"outlier": found.outlier.float(), "differing": found.differing}
    write_tensors(folder / ARRAYS, arrays, run_id(folder))
    write_record(folder / NEIGHBOURS, asdict(found.counts), indent=2)


def neighbour_counts(folder: Path) -> dict[str, int]:
    """The counts of a run as plain values; empty if it did not look for near-identical rows."""
    if not (folder / NEIGHBOURS).exists():
        return {}
    return asdict(read_record(folder / NEIGHBOURS, NeighbourCounts, remedy=REMEDY))


def read_neighbours(folder: Path, num_rows: int) -> NearRows | None:
    """The near-identical rows and outliers of a run with so many training rows; None if it did not look for them."""
    if not (folder / NEIGHBOURS).exists():
        return None
    counts: NeighbourCounts = read_record(folder / NEIGHBOURS, NeighbourCounts, remedy=REMEDY)
    arrays = read_tensors(folder / ARRAYS)
    groups = {
        name.removeprefix("groups/"): each.long()
        for name, each in arrays.items()
        if name.startswith("groups/")
    }
    problem = _problem(groups, arrays, counts, num_rows)
    if problem is not None:
        raise damaged(folder / ARRAYS, problem, f"remove {NEIGHBOURS} to use the run without it")
    return NearRows(counts, groups, arrays["differing"].bool(), arrays["outlier"].float())


def _problem(
    groups: Mapping[str, Tensor], arrays: Mapping[str, Tensor], counts: NeighbourCounts, num_rows: int
) -> str | None:
    sizes = {name: arrays[name].shape if name in arrays else None for name in ("outlier", "differing")}
    wanted = {"outlier": (num_rows,), "differing": (counts.duplicate_groups,)}
    if TRAIN not in groups or groups[TRAIN].shape != (num_rows,) or sizes != wanted:
        return f"not the arrays of {num_rows} rows and {counts.duplicate_groups} groups"
    if not bool(arrays["outlier"].isfinite().all()):
        return "outlier scores must be finite"
    for name, each in groups.items():
        if each.dim() != 1 or (
            len(each) and not -1 <= int(each.min()) <= int(each.max()) < counts.duplicate_groups
        ):
            return f"the groups of {name} must be from -1 to {counts.duplicate_groups - 1}"
    return None


def _differing(groups: Tensor, given: Tensor, number: int) -> Tensor:
    """(G,) bool: the rows of the group, by group (N,), have more than one given class (N,)."""
    inside = groups != NO_GROUP
    some, classes = groups[inside], given[inside]
    least = torch.full((number,), torch.iinfo(torch.long).max).scatter_reduce(0, some, classes, "amin")
    most = torch.full((number,), -1).scatter_reduce(0, some, classes, "amax")
    return most > least


def _shared(groups: Tensor | None, others: Tensor) -> int:
    """How many rows are in one of the groups ``others`` (M,)."""
    return 0 if groups is None else int(torch.isin(groups, others).sum())
