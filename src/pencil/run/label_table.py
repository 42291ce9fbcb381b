"""The labels of a finished run, by row: what the store kept, the method's belief from it, and the judgement."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from pencil.algorithm import Rows, TopRows
from pencil.engine import fitting_method
from pencil.methods import Method
from pencil.results import (
    Decided,
    DecisionReader,
    Judged,
    SavedLabels,
    VerdictRule,
    damaged,
    judge,
    read_card,
    was_reviewed,
)
from pencil.results.saved import SavedRows
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
        rule: How they are judged.
    """

    class_names: tuple[str, ...]
    saved: SavedLabels
    choice: StoreChoice
    method: Method
    width: int
    rule: VerdictRule

    @classmethod
    def open(cls, directory: RunDirectory) -> LabelTable:
        """The table of a finished run."""
        directory.require_finished()
        names, config = read_card(directory.path).class_names, directory.config
        choice = StoreChoice.parse(config.store).in_memory
        method = fitting_method(config.method, choice, len(names))
        width = config.method.row_width(len(names))
        saved = SavedLabels(directory.path, len(names), choice.make(0, width).state())
        return cls(names, saved, choice, method, width, config.verdict)

    def __len__(self) -> int:
        return self.saved.num_rows

    def chunks(self, *, decided: bool = True) -> Iterator[Judged]:
        """All rows in order, a bounded number at a time.

        With ``decided``, what reviewers decided replaces what was learned.
        """
        at_once = rows_at_once(self.choice.make(0, self.width).row_width)
        folder, names = self.saved.folder.parent, self.class_names
        decisions = DecisionReader(folder, len(names)) if decided and was_reviewed(folder) else None
        for saved in self.saved.chunks(at_once):
            yield self._judged(saved, None if decisions is None else decisions.take(saved.ids))
        if decisions is not None:
            decisions.finish()

    def learned(self, row: int) -> Judged:
        """One row as it was learned, whatever was decided about it."""
        return self._judged(self.saved.rows(row, row + 1), None)

    def _judged(self, saved: SavedRows, decided: Decided | None) -> Judged:
        given = saved.given
        return judge(
            self._belief(saved),
            given.hard,
            self.rule,
            ids=saved.ids,
            first=saved.first,
            trusted=given.trusted,
            decided=decided,
        )

    def _belief(self, saved: SavedRows) -> Rows:
        """What the method believes of rows as the store kept them."""
        store = self.choice.make(len(saved.ids), self.width)
        for key, value in store.state().items():
            value.copy_(saved.rows[key])
        rows = store.gather(torch.arange(len(saved.ids)))
        belief: Rows = self.method.label_distribution(rows, saved.given.values, len(self.class_names))
        if not is_belief(belief):
            last = saved.first + len(saved.ids) - 1
            raise damaged(
                self.saved.folder,
                f"rows {saved.first} to {last} hold what is no probability; do not use these labels",
            )
        return belief


def is_belief(distribution: Rows) -> bool:
    """Whether all entries (B, C), whole or cut, are probabilities of classes that there are."""
    if not isinstance(distribution, TopRows):
        return _are_probabilities(distribution)
    classes = distribution.classes
    known = not classes.numel() or 0 <= int(classes.min()) <= int(classes.max()) < distribution.num_classes
    return known and _are_probabilities(distribution.values) and _are_probabilities(distribution.rest)


def _are_probabilities(values: Tensor) -> bool:
    return bool(((values >= -ROUNDING) & (values <= 1 + ROUNDING)).all())  # NaN is neither
