"""The rows that estimates are fitted on: passes over all of them, and a sample of them that is held.

Legend: N rows of all ranks, M rows of the sample, R dimensions, C classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from pencil.estimates.likelihood import CELLS
from pencil.estimates.prototypes import Prototypes
from pencil.estimates.structure import Round, chained
from pencil.estimates.whitening import Passes, Total, Whitening

SAMPLED = 10_000
"""Rows of all ranks that the likelihood is fitted on."""
SAMPLED_CELLS = 2**25
"""Most similarities (rows times classes) that are held."""
FEWEST = 20
"""Rows of a class in the sample, on average, from which its share of all rows can be restored."""


@dataclass(frozen=True)
class Sample:
    """Rows of this rank that are held: directions (M, R) and given classes (M,)."""

    directions: Tensor
    given: Tensor


@dataclass(frozen=True)
class DataRows:
    """The rows of this rank, N of all ranks, and what every pass over them needs."""

    passes: Passes
    given: Tensor
    classes: int
    whitening: Whitening
    rows: int
    total: Total

    @property
    def stride(self) -> int:
        """One of so many rows is held."""
        return max(1, -(-self.rows // max(1, min(SAMPLED, SAMPLED_CELLS // self.classes))))

    def shares(self, given: Prototypes) -> Tensor | None:
        """The logarithm (C,) of the shares of the given classes, or None if the sample has too few rows of each.

        A class without a row in the sample would get a large factor, and many rows of other classes with it.
        """
        enough = self.stride == 1 or self.rows // self.stride >= FEWEST * self.classes
        return given.prior if enough else None

    def first_pass(self) -> tuple[Prototypes, Sample]:
        """Prototypes of the given classes, and the sample."""
        width = len(self.whitening.mean)
        sums = torch.zeros(self.classes, width, dtype=torch.float64)
        counts = torch.zeros(self.classes, dtype=torch.float64)
        held = [(torch.zeros(0, width), torch.zeros(0, dtype=torch.long))]
        for places, features in self.passes():
            directions = self.whitening(features)
            sums.index_add_(0, self.given[places], directions.double())
            counts += self.given[places].bincount(minlength=self.classes)
            chosen = is_sampled(places, self.stride)
            held.append((directions[chosen], places[chosen]))
        directions, places = (torch.cat(each) for each in zip(*held, strict=True))
        return Prototypes.of(self.total(sums), self.total(counts)), Sample(directions, self.given[places])

    def prototypes(self, rounds: tuple[Round, ...], sample: Sample, own: Tensor) -> Prototypes:
        """Prototypes of all rows' labels after some rounds, after which the sample has the labels ``own`` (M, C)."""
        sums = torch.zeros(self.classes, len(self.whitening.mean), dtype=torch.float64)
        counts = torch.zeros(self.classes, dtype=torch.float64)
        for directions, labels in self._labelled(rounds, sample, own):
            sums += (labels.T @ directions).double()
            counts += labels.sum(0, dtype=torch.float64)
        return Prototypes.of(self.total(sums), self.total(counts))

    def _labelled(
        self, rounds: tuple[Round, ...], sample: Sample, own: Tensor
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Directions and labels of all rows: the sample's if it has all, else from a pass."""
        if self.stride == 1:
            yield sample.directions, own
            return
        for places, features in self.passes():
            for part, some in zip(
                in_parts(places, self.classes), in_parts(features, self.classes), strict=True
            ):
                directions = self.whitening(some)
                yield directions, chained(rounds, directions, self.given[part], self.classes)


def in_parts(values: Tensor, classes: int) -> Iterator[Tensor]:
    """Rows in parts whose probabilities take limited memory."""
    return iter(values.split(max(1, CELLS // classes)))


def stride_of(rows: int, total: Total, most: int = SAMPLED) -> int:
    """One of how many rows to take, so that about ``most`` rows of all ranks at most are a sample."""
    everywhere = float(total(torch.tensor([rows], dtype=torch.float64))[0])
    return max(1, -(-int(everywhere) // most))


def is_sampled(places: Tensor, stride: int) -> Tensor:
    """(B,) bool for about one of ``stride`` rows, whose order may be periodic: equal steps could miss whole classes."""
    return content(places[:, None]) % stride == 0


def mean_and_error(values: Tensor, total: Total) -> tuple[float, float]:
    """The mean of the values of all ranks and its standard error."""
    sums = total(torch.stack([values.sum(), values.square().sum(), torch.tensor(len(values)).double()]))
    count = sums[2].clamp_min(1)
    mean = sums[0] / count
    return float(mean), float(((sums[1] / count - mean.square()).clamp_min(0) / count).sqrt())


def content(numbers: Tensor) -> Tensor:
    """(M,) a number of each row of int64 (M, D), to choose rows by: it is the same on any number of ranks."""
    factors = torch.arange(1, 2 * numbers.shape[1], 2) * 0x9E3779B1
    mixed = (numbers * factors).sum(1)
    return mixed ^ (mixed >> 29)
