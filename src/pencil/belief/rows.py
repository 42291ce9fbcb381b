"""Rows as the belief reads them: whitened directions, groups of copies, folds, and the nearest other rows.

With Σ_s the covariance of the features and its mean variance added to the diagonal, a row is its direction
a = white / |white| and its relative length l = |white| / median, white = Σ_s^(−1/2) (x − m). Features whose scales
differ much are first divided by their quartile range and clipped; which of the two is better, left-out labels say.

Copies whose label was copied with them are one piece of evidence: they form a group, and count as one row together.
A group lies in one fold, and its rows are no neighbours of each other.

Legend: N rows, D features, R directions, C classes, k neighbours, K folds.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pencil.estimates.neighbours import Neighbours, duplicate_groups, nearest
from pencil.estimates.whitening import projected, projection_of, root_of

FOLDS = 5
NEAR, SEARCHED = 20, 60
"""Neighbours that vote, and those that are searched, because some lie in the same fold or group."""
CLIP = 5.0
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
        return FOLDS if self.classes <= MANY_CLASSES else 1

    def held(self, fold: int) -> Tensor:
        """The numbers of the rows that the read-out of a fold is asked about."""
        if self.folds == 1:
            return torch.arange(len(self.given))
        return (self.fold == fold).nonzero()[:, 0]

    def one_hot(self) -> Tensor:
        """(N, C) the given labels; zeros for a row without one."""
        labels = torch.zeros(len(self.given), self.classes)
        said = self.given >= 0
        labels[said, self.given[said]] = 1.0
        return labels


def directions(features: Tensor, *, clipped: bool) -> tuple[Tensor, Tensor]:
    """Directions (N, R) and relative lengths (N, 1) of features (N, D)."""
    x = torch.nan_to_num(features, nan=0.0, posinf=0.0, neginf=0.0).float()
    x = (x.double() - x.mean(0, dtype=torch.float64)).float()
    spread = x.double().square().mean(0).sqrt().float()
    varied = spread > 1e-9 * spread.max()
    x, spread = x[:, varied], spread[varied]
    if not x.shape[1]:
        return torch.zeros(len(x), 1), torch.ones(len(x), 1)
    white = _white(_clipped(x, spread) if clipped else x / spread.max())
    length = white.norm(dim=1, keepdim=True)
    return white / length.clamp_min(1e-12), length / length.median().clamp_min(1e-12)


def _clipped(x: Tensor, spread: Tensor) -> Tensor:
    """Features in units of their quartile range, at most ``CLIP``; if that is small, of the standard deviation."""
    places = torch.tensor([0.25, 0.5, 0.75])
    low, middle, high = torch.quantile(x[sampled(len(x), 1000)], places, dim=0)
    quartile = (high - low) / 1.349
    scale = torch.where(quartile > 0.2 * spread, quartile, spread)
    clipped: Tensor = ((x - middle) / scale).clamp_(-CLIP, CLIP)
    return clipped


def _white(x: Tensor) -> Tensor:
    projection = projection_of(x.shape[1])
    plain = x if projection is None else projected(x, projection).float()
    plain = plain - plain.mean(0)
    gram = torch.zeros(plain.shape[1], plain.shape[1], dtype=torch.float64)
    for some in plain.split(8192):
        gram += some.double().T @ some.double()
    white: Tensor = plain @ root_of(gram / len(plain))
    return white


def sampled(rows: int, most: int) -> Tensor:
    """The numbers of at most ``most`` random rows."""
    return torch.randperm(rows, generator=torch.Generator().manual_seed(_SEED))[:most]


def grouped_rows(directed: tuple[Tensor, Tensor], given: Tensor, sure: Tensor, classes: int) -> BeliefRows:
    """The rows with these directions and lengths, their groups, folds and neighbours."""
    axes, lengths = directed
    found = nearest(axes, min(SEARCHED, len(axes) - 1))
    group = copied_groups(found, given)
    generator = torch.Generator().manual_seed(_SEED + 1)
    number, half = (torch.randperm(int(group.max()) + 1, generator=generator)[group] for _ in range(2))
    few = classes <= MANY_CLASSES
    fold = number % FOLDS if few else torch.ones_like(number)
    votes = _votes(found, group, fold) if few and len(axes) > FEWEST else ()
    weight = (given >= 0).float() / torch.bincount(group)[group]
    return BeliefRows(axes, lengths, given, sure, classes, weight, fold, half % 2, votes)


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
    for each in range(FOLDS):
        keep = other & (fold[found.rows] != each)
        # The nearest rows that count come first, in order; those that do not get no weight.
        order = (~keep).to(torch.uint8).argsort(dim=1, stable=True)[:, :NEAR]
        near, counts = cosine.gather(1, order), keep.gather(1, order)
        weight = ((near - near[:, :1]) * _LENGTHS).exp() * counts
        weight = weight / weight.sum(1, keepdim=True).clamp_min(1e-9)
        result.append((found.rows.gather(1, order), weight.float()))
    return tuple(result)
