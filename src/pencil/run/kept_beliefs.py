"""The label rows that a finished run keeps, and what they mean when they are read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from pencil.algorithm import Rows, TopRows, as_distribution
from pencil.config import RunConfig
from pencil.config.methods import OwnMethod
from pencil.engine import LabelLearner
from pencil.methods import Method
from pencil.run.directory import RunDirectory
from pencil.stores import DenseStore, StoreChoice, rows_at_once

ROUNDING = 1e-3  # tolerance for rows in half precision


@dataclass(frozen=True)
class KeptBelief(Method):
    """Replaces a method when a finished run is read: its rows are the distributions of that method.

    Reports, reviews and exports therefore need no user code and no labels that training started from.
    """

    learned: bool

    def row_width(self, num_classes: int) -> int:
        """C; 0 if the method does not learn labels."""
        return num_classes if self.learned else 0

    def label_distribution(self, rows: Tensor, given: Tensor, num_classes: int) -> Tensor:
        """The rows; the given labels if the method does not learn labels."""
        return rows if self.learned else as_distribution(given, num_classes)


def keeps_beliefs(config: RunConfig, *, has_start: bool) -> bool:
    """Whether a finished run keeps distributions: what the method's own rows mean depends on more than themselves.

    That is the code of a user's own method, or other labels than the given ones, from which it learned in the end.
    """
    own = isinstance(config.method, OwnMethod)
    return own or (has_start and not config.load_method().rows_are_beliefs)


def rows_to_keep(config: RunConfig, learner: LabelLearner, folder: Path) -> dict[str, Tensor]:
    """The label rows that a finished run keeps: the store's, or the method's distributions."""
    if not keeps_beliefs(config, has_start=learner.has_start):
        return learner.store.state()
    width = KeptBelief(learner.method.learns_labels).row_width(learner.num_classes)
    kept = DenseStore(
        len(learner.given), width, folder
    )  # mapped, because it may be wider than the method's own rows
    for indices in torch.arange(len(learner.given)).split(rows_at_once(width)):
        if width:
            kept.scatter(indices, learner.label_distribution(indices))
    return kept.state()


def kept_as(directory: RunDirectory) -> tuple[StoreChoice, Method]:
    """The store and method that interpret what ``rows_to_keep`` saved."""
    config = directory.config
    if keeps_beliefs(config, has_start=True):  # it may; the summary knows
        beliefs = directory.summary.get("keeps_beliefs")
        if beliefs is None:  # a run of before there were recomputed labels
            beliefs = keeps_beliefs(config, has_start=config.start.labels != "given")
        if beliefs:
            return StoreChoice(), KeptBelief(directory.summary.get("learns_labels", True))
    return StoreChoice.parse(config.store).in_memory, config.load_method()


def is_belief(distribution: Rows) -> bool:
    """Whether all entries (B, C), whole or cut, are probabilities of existing classes."""
    if not isinstance(distribution, TopRows):
        return _are_probabilities(distribution)
    classes = distribution.classes
    known = not classes.numel() or 0 <= int(classes.min()) <= int(classes.max()) < distribution.num_classes
    return known and _are_probabilities(distribution.values) and _are_probabilities(distribution.rest)


def _are_probabilities(values: Tensor) -> bool:
    return bool(((values >= -ROUNDING) & (values <= 1 + ROUNDING)).all())  # False for NaN
