"""The learned labels of a finished run, by row: what the store kept, and the method's belief from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pencil.algorithm import Rows, TopRows
from pencil.engine import fitting_method
from pencil.methods import Method
from pencil.results import LabelChunk, SavedLabels, damaged, read_card
from pencil.run.directory import RunDirectory
from pencil.stores import StoreChoice, rows_at_once

ROUNDING = 1e-3  # of rows in half precision


@dataclass(frozen=True)
class LabelTable:
    """Labels read as they are asked for; nothing holds the table.

    Attributes:
        class_names: The classes, in the order of a distribution.
        saved: What the run left.
        choice: How its rows are kept.
        method: What they mean.
        width: How many values a whole row has.
    """

    class_names: tuple[str, ...]
    saved: SavedLabels
    choice: StoreChoice
    method: Method[Any]
    width: int

    @classmethod
    def open(cls, directory: RunDirectory) -> LabelTable:
        """The table of a finished run."""
        directory.require_finished()
        names, config = read_card(directory.path).class_names, directory.config
        choice = StoreChoice.parse(config.store).in_memory
        method = fitting_method(config.method, choice, len(names))
        width = config.method.row_width(len(names))
        saved = SavedLabels(directory.path, len(names), choice.make(0, width).state())
        return cls(names, saved, choice, method, width)

    def __len__(self) -> int:
        return self.saved.num_rows

    def chunks(self) -> Iterator[LabelChunk]:
        """All rows in order, a bounded number at a time."""
        at_once = rows_at_once(self.choice.make(0, self.width).row_width)
        for first in range(0, len(self), at_once):
            yield self.rows(first, min(first + at_once, len(self)))

    def rows(self, first: int, stop: int) -> LabelChunk:
        """The rows numbered from ``first`` to before ``stop``."""
        saved = self.saved.rows(first, stop)
        store = self.choice.make(len(saved.ids), self.width)
        for key, value in store.state().items():
            value.copy_(saved.rows[key])
        names, given = self.class_names, saved.given
        belief = self.method.label_distribution(
            store.gather(torch.arange(len(saved.ids))), given.values, len(names)
        )
        if not is_belief(belief):
            raise damaged(
                self.saved.folder,
                f"rows {first} to {stop - 1} hold what is no probability; do not use these labels",
            )
        return LabelChunk(
            saved.ids, [names[label] for label in given.hard.tolist()], belief, trusted=given.trusted
        )


def is_belief(distribution: Rows) -> bool:
    """Whether all entries (B, C), whole or cut, are probabilities of classes that there are."""
    if not isinstance(distribution, TopRows):
        return _are_probabilities(distribution)
    classes = distribution.classes
    known = not classes.numel() or 0 <= int(classes.min()) <= int(classes.max()) < distribution.num_classes
    return known and _are_probabilities(distribution.values) and _are_probabilities(distribution.rest)


def _are_probabilities(values: Tensor) -> bool:
    return bool(((values >= -ROUNDING) & (values <= 1 + ROUNDING)).all())  # NaN is neither
