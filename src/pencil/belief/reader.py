"""Read rows that a belief was not found from, by what was learned from those that it was.

A row is read as if it were of one fold, so that it is no surer than the rows of that fold are. Its own label speaks as
theirs do.

Legend: B rows, D features, C classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from pencil.belief.claims import doubted
from pencil.belief.directions import Directions
from pencil.belief.head import read_linearly, with_second
from pencil.belief.model import Said
from pencil.belief.readout import read_others, strangeness
from pencil.belief.rounds import Reading
from pencil.belief.rows import BeliefRows

AT_ONCE = 4096


class ReadRows(NamedTuple):
    """What is believed about some rows.

    Attributes:
        posterior: (B, C + 1) the probability of each class, and of no class.
        likeliest: (B,) the class that is right most often.
    """

    posterior: Tensor
    likeliest: Tensor


@dataclass(frozen=True)
class Reader:
    """Reads rows.

    Attributes:
        map: From features to directions.
        rows: The rows that the belief was found from.
        best: What was learned from them.
        weights: The second read-out, of each fold; empty if it is not mixed in.
        right: How often given labels are right.
        doubt: By how much suggestions count as less sure.
    """

    map: Directions
    rows: BeliefRows
    best: Reading
    weights: list[Tensor]
    right: float
    doubt: float

    def __call__(self, features: Tensor, given: Tensor, sure: Tensor) -> ReadRows:
        """Read rows with features (B, D), given classes (B,), −1 for none, of which some were verified (B,) bool."""
        parts = zip(features.split(AT_ONCE), given.split(AT_ONCE), sure.split(AT_ONCE), strict=True)
        found = [self._read(*each) for each in parts]
        if not found:
            return ReadRows(torch.zeros(0, self.rows.classes + 1), given)
        return ReadRows(*(torch.cat(each) for each in zip(*found, strict=True)))

    def _read(self, features: Tensor, given: Tensor, sure: Tensor) -> ReadRows:
        rows, model, usual = self.rows, self.best.model, self.best.held.usual
        axes, lengths = self.map(features)
        fold = torch.arange(len(given)) % rows.folds
        phi = torch.zeros(len(model.slopes), len(given), rows.classes)
        for number, labels in enumerate(self.best.labels):
            some = (fold == number).nonzero()[:, 0]
            phi[:, some] = read_others(rows, labels, number, (axes[some], lengths[some]), len(phi))
        said = Said(phi, strangeness(phi[0], usual), given, sure, torch.ones(len(given)))
        posterior = model.posterior(said)
        likeliest = posterior[:, :-1].argmax(1)
        if self.weights:
            posterior, likeliest = with_second(posterior, read_linearly(axes, lengths, fold, self.weights))
        alone = rows.is_alone(given, torch.zeros(len(given)))
        posterior = with_usual(posterior, given, alone, self.right)
        posterior[sure] = torch.nn.functional.one_hot(given[sure], posterior.shape[1]).float()
        likeliest = torch.where(sure, given, likeliest)
        return ReadRows(doubted(posterior, given, self.doubt), likeliest)


def with_usual(posterior: Tensor, given: Tensor, alone: Tensor, right: float) -> Tensor:
    """The posterior (B, C + 1), with the usual share of right labels (B,) where a class has hardly any other row."""
    usual = torch.full_like(posterior[alone], (1 - right) / max(posterior.shape[1] - 2, 1))
    usual[:, -1] = 0.0
    return posterior.index_copy(0, alone.nonzero()[:, 0], usual.scatter(1, given[alone, None], right))
