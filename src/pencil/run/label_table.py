"""The labels of a finished run by row: stored values, the distribution that the method derives, and verdicts."""

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

ROUNDING = 1e-3  # tolerance for rows in half precision


@dataclass(frozen=True)
class LabelTable:
    """The labels of a run, read on demand.

    Attributes:
        class_names: The classes, in the order of a distribution.
        saved: The labels on disk.
        choice: The store that the rows were kept in.
        method: The method that interprets the rows.
        width: The number of values of a whole row.
        rule: The verdict rule.
    """

    class_names: tuple[str, ...]
    saved: SavedLabels
    choice: StoreChoice
    method: Method
    width: int
    rule: VerdictRule

    @classmethod
    def open(cls, directory: RunDirectory) -> LabelTable:
        """Open the table of a finished run."""
        directory.require_finished()
        names, config = read_card(directory.path).class_names, directory.config
        choice, method = _kept_as(directory)
        width, method = method.row_width(len(names)), fitting_method(method, choice, len(names))
        saved = SavedLabels(directory.path, len(names), choice.make(0, width).state())
        return cls(names, saved, choice, method, width, config.verdict)

    def __len__(self) -> int:
        return self.saved.num_rows

    def chunks(self, *, decided: bool = True) -> Iterator[Judged]:
        """Yield all rows in order, in chunks of limited size.

        With ``decided``, review decisions replace learned labels.
        """
        at_once = rows_at_once(self.choice.make(0, self.width).row_width)
        folder, names = self.saved.folder.parent, self.class_names
        decisions = DecisionReader(folder, len(names)) if decided and was_reviewed(folder) else None
        for saved in self.saved.chunks(at_once):
            yield self._judged(saved, None if decisions is None else decisions.take(saved.ids))
        if decisions is not None:
            decisions.finish()

    def learned(self, row: int) -> Judged:
        """One row as learned, without review decisions."""
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
        """The distributions that the method derives from stored rows."""
        store = self.choice.make(len(saved.ids), self.width)
        for key, value in store.state().items():
            value.copy_(saved.rows[key])
        rows = store.gather(torch.arange(len(saved.ids)))
        belief: Rows = self.method.label_distribution(rows, saved.given.values, len(self.class_names))
        if not is_belief(belief):
            last = saved.first + len(saved.ids) - 1
            raise damaged(
                self.saved.folder,
                f"rows {saved.first} to {last} contain invalid probabilities; do not use these labels",
            )
        return belief


@dataclass(frozen=True)
class KeptBelief(Method):
    """Replaces a user's own method when a finished run is read: its rows are the distributions of that method.

    Reports, reviews and exports therefore need no user code.
    """

    learned: bool

    def row_width(self, num_classes: int) -> int:
        """C; 0 if the method does not learn labels."""
        return num_classes if self.learned else 0

    def label_distribution(self, rows: Tensor, given: Tensor, num_classes: int) -> Tensor:
        """The rows; the given labels if the method does not learn labels."""
        return rows if self.learned else as_distribution(given, num_classes)


def rows_to_keep(config: RunConfig, learner: LabelLearner, folder: Path) -> dict[str, Tensor]:
    """The label rows that a finished run keeps: the store's, or the distributions of a user's own method."""
    if not isinstance(config.method, OwnMethod):
        return learner.store.state()
    width = KeptBelief(learner.method.learns_labels).row_width(learner.num_classes)
    kept = DenseStore(
        len(learner.given), width, folder
    )  # mapped, because it may be wider than the method's own rows
    for indices in torch.arange(len(learner.given)).split(rows_at_once(width)):
        if width:
            kept.scatter(indices, learner.label_distribution(indices))
    return kept.state()


def _kept_as(directory: RunDirectory) -> tuple[StoreChoice, Method]:
    """The store and method that interpret what ``rows_to_keep`` saved."""
    config = directory.config
    if isinstance(config.method, OwnMethod):
        return StoreChoice(), KeptBelief(directory.summary.get("learns_labels", True))
    return StoreChoice.parse(config.store).in_memory, config.method


def is_belief(distribution: Rows) -> bool:
    """Whether all entries (B, C), whole or cut, are probabilities of existing classes."""
    if not isinstance(distribution, TopRows):
        return _are_probabilities(distribution)
    classes = distribution.classes
    known = not classes.numel() or 0 <= int(classes.min()) <= int(classes.max()) < distribution.num_classes
    return known and _are_probabilities(distribution.values) and _are_probabilities(distribution.rest)


def _are_probabilities(values: Tensor) -> bool:
    return bool(((values >= -ROUNDING) & (values <= 1 + ROUNDING)).all())  # False for NaN
