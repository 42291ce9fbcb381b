"""The labels of a finished run, by row: what the store kept, the method's belief from it, and the judgement."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from pencil.algorithm import Rows, TopRows, as_distribution
from pencil.config import RunConfig
from pencil.config.methods import OwnMethod
from pencil.engine import LabelLearner, fitting_method
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
from pencil.stores import DenseStore, StoreChoice, rows_at_once

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
        choice, method = _kept_as(directory)
        width, method = method.row_width(len(names)), fitting_method(method, choice, len(names))
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


@dataclass(frozen=True)
class KeptBelief(Method):
    """Stands for a method of the user's own where a finished run is read: its rows are what that one believed.

    So reports, reviews and exports need none of the user's code.
    """

    learned: bool

    def row_width(self, num_classes: int) -> int:
        """A probability for each class; nothing where no labels were learned."""
        return num_classes if self.learned else 0

    def label_distribution(self, rows: Tensor, given: Tensor, num_classes: int) -> Tensor:
        """The rows; the given labels where no labels were learned."""
        return rows if self.learned else as_distribution(given, num_classes)


def rows_to_keep(config: RunConfig, learner: LabelLearner, folder: Path) -> dict[str, Tensor]:
    """What a finished run keeps of its label rows: those of the store, or, of a user's own method, its belief."""
    if not isinstance(config.method, OwnMethod):
        return learner.store.state()
    width = KeptBelief(learner.method.learns_labels).row_width(learner.num_classes)
    kept = DenseStore(len(learner.given), width, folder)  # mapped: it may be wider than the method's own rows
    for indices in torch.arange(len(learner.given)).split(rows_at_once(width)):
        if width:
            kept.scatter(indices, learner.label_distribution(indices))
    return kept.state()


def _kept_as(directory: RunDirectory) -> tuple[StoreChoice, Method]:
    """How ``rows_to_keep`` kept the rows of a finished run, and what they mean."""
    config = directory.config
    if isinstance(config.method, OwnMethod):
        return StoreChoice(), KeptBelief(directory.summary.get("learns_labels", True))
    return StoreChoice.parse(config.store).in_memory, config.method


def is_belief(distribution: Rows) -> bool:
    """Whether all entries (B, C), whole or cut, are probabilities of classes that there are."""
    if not isinstance(distribution, TopRows):
        return _are_probabilities(distribution)
    classes = distribution.classes
    known = not classes.numel() or 0 <= int(classes.min()) <= int(classes.max()) < distribution.num_classes
    return known and _are_probabilities(distribution.values) and _are_probabilities(distribution.rest)


def _are_probabilities(values: Tensor) -> bool:
    return bool(((values >= -ROUNDING) & (values <= 1 + ROUNDING)).all())  # NaN is neither
