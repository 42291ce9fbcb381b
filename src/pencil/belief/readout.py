"""What the features of a row say about its class, read without the row itself: log f_c = w · φ_c + a_c − log Σ.

For fold k the prototypes and votes come from the labels y of the rows outside of it:

    z_c = cos(a_i − ā, S_c),  S_c = Σ y_c (a − ā)        without the row's own share, in closed form
    n_c = Σ ω y_c                                          over the 20 nearest rows, ω ∝ e^(10 cos)
    φ_c = (10 z_c, 10 z_c l, log(n_c + 0.2 / C))

The first feature alone is the rigid read-out; all three are the flexible one (``rounds`` says what each is for).

Legend: N rows, B rows that are asked about, M features of a class, C classes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from pencil.belief.rows import BeliefRows, voters
from pencil.estimates.prototypes import Prototypes

_SCALE = 10.0
_VOTE = 0.2
_FLOOR, _LEAST = 0.05, 1e-6
RIGID = 1


@dataclass(frozen=True)
class HeldOut:
    """Features of the classes for each row, from the read-out that did not see it.

    Attributes:
        phi: (M, N, C).
        strange: (N,) how far the row is from all classes, in robust standard deviations.
        usual: The median distance and that deviation.
        heavy: (N, C) the logarithm of the first feature, by which classes have heavier tails.
        parts: For each fold (M, N, C) of all rows, from the same read-out; empty if they were not asked for.
    """

    phi: Tensor
    strange: Tensor
    usual: tuple[float, float]
    heavy: Tensor
    parts: tuple[Tensor, ...]


def held_out(rows: BeliefRows, labels: list[Tensor], features: int | None = None, *, whole: bool) -> HeldOut:
    """Read all rows by the labels (N, C) of each fold, with all features of a class or the first few.

    Args:
        rows: The rows.
        labels: For each fold, the labels of all rows that its read-out learns from.
        features: M; by default all.
        whole: Also read the rows that each read-out learned from.
    """
    phi, parts = torch.empty(0), []
    for fold, each in enumerate(labels):
        held = rows.held(fold)
        part = read(rows, each, fold, None if whole else held, features)
        if not len(phi):
            phi = part.new_empty(len(part), len(rows.given), rows.classes)
        phi[:, held] = part[:, held] if whole else part
        parts += [part] if whole else []
    heavy = (phi[0] / _SCALE).clamp_min(0).add(_FLOOR).log()
    return HeldOut(phi, *_strange(phi[0]), heavy, tuple(parts))


def probabilities_held_out(probabilities: Tensor) -> HeldOut:
    """The same from probabilities (N, C) of rows that a model did not learn from."""
    chances = probabilities.float().clamp(_LEAST, 1)
    phi = chances.log()[None]
    return HeldOut(phi, *_strange(phi[0]), (chances + _FLOOR).log(), ())


def _strange(similar: Tensor) -> tuple[Tensor, tuple[float, float]]:
    far = -similar.amax(1)
    middle = far.median()
    usual = float(middle), float(1.5 * (far - middle).abs().median().clamp_min(1e-6))
    return strangeness(similar, usual), usual


def strangeness(similar: Tensor, usual: tuple[float, float]) -> Tensor:
    """(B,) how far rows are from all classes, by their first feature (B, C) and what is usual."""
    return (-similar.amax(1) - usual[0]) / usual[1]


def read(
    rows: BeliefRows, labels: Tensor, fold: int, asked: Tensor | None = None, features: int | None = None
) -> Tensor:
    """φ (M, B, C) of the rows that are asked about, by default all."""
    own = labels * (rows.fold != fold).float()[:, None]
    some = slice(None) if asked is None else asked
    similar = _prototypes(rows, own).similarities(rows.directions[some], own[some])
    votes = None
    if rows.votes:
        near, weight = rows.votes[fold]
        votes = near[some], weight[some]
    return _features(similar, rows.lengths[some], labels, votes, features)


def read_others(
    rows: BeliefRows, labels: Tensor, fold: int, others: tuple[Tensor, Tensor], features: int
) -> Tensor:
    """φ (M, B, C) of other rows with these directions (B, R) and relative lengths (B, 1)."""
    learned = (rows.fold != fold).float()[:, None]
    axes, lengths = others
    similar = _prototypes(rows, labels * learned).similarities(axes, torch.zeros(len(axes), rows.classes))
    votes = voters(rows, fold, axes) if rows.votes and features != RIGID else None
    return _features(similar, lengths, labels, votes, features)


def _prototypes(rows: BeliefRows, own: Tensor) -> Prototypes:
    counted = own * rows.weight[:, None]
    sums = (counted.T @ rows.directions).double()
    return Prototypes.of(sums, counted.sum(0, dtype=torch.float64))


def _features(
    similar: Tensor,
    lengths: Tensor,
    labels: Tensor,
    votes: tuple[Tensor, Tensor] | None,
    features: int | None,
) -> Tensor:
    found = [similar.mul_(_SCALE)]
    if features != RIGID:
        found.append(similar * lengths)
        if votes is not None:
            near, weight = votes
            counted = embedding_bag(near, labels, per_sample_weights=weight, mode="sum")
            found.append((counted + _VOTE / labels.shape[1]).log())
    return torch.stack(found)
