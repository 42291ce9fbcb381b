"""Rows as the belief reads them: whitened directions, groups of copies, folds, and the nearest other rows.

Copies whose label was copied with them are one piece of evidence: they form a group, and count as one row together.
A group lies in one fold, and its rows are no neighbours of each other.

Legend: N rows, R directions, C classes, k neighbours, K folds.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pencil.belief.directions import sampled
from pencil.estimates.neighbours import Neighbours, duplicate_groups, nearest

FOLDS, MOST_FOLDS, ENOUGH = 5, 20, 600
"""Folds: at least five, and more where a class has few rows, of which a read-out should see nearly all. With 30 rows a
class, 80 % of them wrong, the likeliest class is right for 53 % of the rows instead of 45 %."""
NEAR, SEARCHED = 20, 60
"""Neighbours that vote, and those that are searched, because some lie in the same fold or group."""
VOTERS = 20_000
"""Rows that may vote for rows that the belief was not found from."""
SAME = 0.9
"""Copies are one piece of evidence if this share of the pairs has the same label."""
FEWEST = 3 * SEARCHED
"""With fewer rows neighbours do not vote."""
MANY_CLASSES = 500
"""With more classes there are no folds and no votes: a row is left out of its prototypes in closed form."""
_SEED = 20190
_LENGTHS = 10.0  # how fast a neighbour's vote falls with its cosine


@dataclass(frozen=True)
class BeliefRows:
    """What does not change while the belief is fitted.

    Attributes:
        directions: (N, R) of length 1.
        lengths: (N, 1) relative lengths.
        given: (N,) given classes; −1 for a row without a label.
        sure: (N,) bool, rows whose given class was verified.
        classes: C.
        weight: (N,) 1 / size of the row's group of copies; 0 for a row without a label.
        fold: (N,) from 0 to K − 1; 1 for all rows with many classes.
        half: (N,) 0 or 1, to compare models on left-out labels.
        votes: For each fold the neighbours (N, 20) that vote for each row, and how much (N, 20); empty for none.
    """

    directions: Tensor
    lengths: Tensor
    given: Tensor
    sure: Tensor
    classes: int
    weight: Tensor
    fold: Tensor
    half: Tensor
    votes: tuple[tuple[Tensor, Tensor], ...]

    @property
    def folds(self) -> int:
        """The number of read-outs."""
        return int(self.fold.max()) + 1 if self.classes <= MANY_CLASSES else 1

    def held(self, fold: int) -> Tensor:
        """The numbers of the rows that the read-out of a fold is asked about."""
        if self.folds == 1:
            return torch.arange(len(self.given))
        return (self.fold == fold).nonzero()[:, 0]

    def is_alone(self, given: Tensor, weight: Tensor) -> Tensor:
        """(B,) bool, rows given a class (B,) that has hardly any row besides them, which count so much (B,)."""
        has = self.given >= 0
        counts = torch.bincount(self.given[has], self.weight[has].double(), self.classes)
        return (given >= 0) & (counts[given.clamp_min(0)] - weight < 1.5)

    def one_hot(self) -> Tensor:
        """(N, C) the given labels; zeros for a row without one."""
        labels = torch.zeros(len(self.given), self.classes)
        said = self.given >= 0
        labels[said, self.given[said]] = 1.0
        return labels


def grouped_rows(directed: tuple[Tensor, Tensor], given: Tensor, sure: Tensor, classes: int) -> BeliefRows:
    """The rows with these directions and lengths, their groups, folds and neighbours."""
    axes, lengths = directed
    found = nearest(axes, min(SEARCHED, len(axes) - 1))
    group = copied_groups(found, given)
    generator = torch.Generator().manual_seed(_SEED + 1)
    number, half = (torch.randperm(int(group.max()) + 1, generator=generator)[group] for _ in range(2))
    few = classes <= MANY_CLASSES
    fold = number % _folds(len(axes), classes) if few else torch.ones_like(number)
    votes = _votes(found, group, fold) if few and len(axes) > FEWEST else ()
    weight = (given >= 0).float() / torch.bincount(group)[group]
    return BeliefRows(axes, lengths, given, sure, classes, weight, fold, half % 2, votes)


def _folds(rows: int, classes: int) -> int:
    return min(max(ENOUGH * classes // max(rows, 1), FOLDS), MOST_FOLDS)


def alone_rows(directed: tuple[Tensor, Tensor], given: Tensor, sure: Tensor, classes: int) -> BeliefRows:
    """The rows with random folds, each a group of its own."""
    order = torch.randperm(len(given), generator=torch.Generator().manual_seed(_SEED))
    said = (given >= 0).float()
    return BeliefRows(*directed, given, sure, classes, said, order % FOLDS, order % 2, ())


def copied_groups(found: Neighbours, given: Tensor) -> Tensor:
    """The group (N,) of each row: copies share one if their labels were copied, too."""
    near = Neighbours(found.rows[:, :NEAR], found.distances[:, :NEAR])
    copies, alone = duplicate_groups(near), torch.arange(len(given))
    inside = copies >= 0
    if not bool(inside.any()) or _agreement(copies[inside], given[inside]) < SAME:
        return alone
    first = int(copies.max()) + 1
    group: Tensor = torch.where(inside, copies, first + alone).unique(return_inverse=True)[1]
    return group


def _agreement(group: Tensor, given: Tensor) -> float:
    """The share of pairs within groups that have the same label."""
    size = torch.bincount(group).double()
    same = torch.unique(torch.stack([group, given]), dim=1, return_counts=True)[1].double()
    return float((same * (same - 1)).sum() / (size * (size - 1)).sum().clamp_min(1))


def _votes(found: Neighbours, group: Tensor, fold: Tensor) -> tuple[tuple[Tensor, Tensor], ...]:
    cosine = 1 - found.distances.square() / 2
    other = group[found.rows] != group[:, None]
    result = []
    for each in range(int(fold.max()) + 1):
        keep = other & (fold[found.rows] != each)
        # The nearest rows that count come first, in order; those that do not get no weight.
        order = (~keep).to(torch.uint8).argsort(dim=1, stable=True)[:, :NEAR]
        near, counts = cosine.gather(1, order), keep.gather(1, order)
        weight = ((near - near[:, :1]) * _LENGTHS).exp() * counts
        weight = weight / weight.sum(1, keepdim=True).clamp_min(1e-9)
        result.append((found.rows.gather(1, order), weight.float()))
    return tuple(result)


def voters(rows: BeliefRows, fold: int, axes: Tensor) -> tuple[Tensor, Tensor]:
    """The rows outside a fold that vote for other rows with these directions (B, R), and how much: (B, 20) each."""
    learned = ((rows.fold != fold) & (rows.given >= 0)).nonzero()[:, 0]
    learned = learned[sampled(len(learned), VOTERS)]
    cosine = axes @ rows.directions[learned].T
    values, places = cosine.topk(min(NEAR, len(learned)), dim=1)
    weight = ((values - values[:, :1]) * _LENGTHS).exp()
    return learned[places], weight / weight.sum(1, keepdim=True)
