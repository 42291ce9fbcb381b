"""The labels that came with the examples, row by row: hard, soft, or votes; some of them trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pencil.errors import DataError

Labels = Tensor | NDArray[Any] | Sequence[int] | Sequence[Sequence[float]]
"""Classes (N,), or soft labels or vote counts (N, C)."""
Flags = Tensor | NDArray[np.bool_] | Sequence[bool]
"""One yes or no for each row (N,)."""

SPARE_CLASSES = 1000
"""How many more classes than rows class numbers may ask for: a larger one is an id, or a slip."""


UNKNOWN = -1


@dataclass(frozen=True, eq=False)
class GivenLabels:
    """ŷ for every row.

    Attributes:
        values: Class indices (N,) int64, or distributions (N, C) float32.
        num_classes: C.
        trusted: (N,) bool, rows whose given label is known to be right and never moves; None for none.
        before: (N,) int64, the class that a trusted row had been given before people said what it is; ``UNKNOWN`` where
            there was none. None if all are unknown.
    """

    values: Tensor
    num_classes: int
    trusted: Tensor | None = None
    before: Tensor | None = None

    @classmethod
    def of(cls, labels: Labels, num_classes: int | None = None, trusted: Flags | None = None) -> GivenLabels:
        """From class indices (N,), or from soft labels or annotators' vote counts (N, C)."""
        numbers = _numbers(labels)
        if numbers.dim() not in (1, 2):
            raise DataError(
                f"labels must be classes (N,) or a matrix (N, C), not of shape {tuple(numbers.shape)}"
            )
        if len(numbers) == 0 and num_classes is None and numbers.dim() == 1:
            raise DataError("labels are empty; give num_classes")
        values = _hard(numbers) if numbers.dim() == 1 else _soft(numbers)
        classes = num_classes or (values.shape[1] if values.dim() == 2 else count_classes(values))
        given = cls(values, classes, None if trusted is None else torch.as_tensor(trusted).bool())
        given._check()
        return given

    def __len__(self) -> int:
        return self.values.shape[0]

    @property
    def hard(self) -> Tensor:
        """(N,) int64: the given class, for soft labels the likeliest."""
        return self.values if self.values.dim() == 1 else self.values.argmax(dim=1)

    @property
    def unverified(self) -> Tensor:
        """(N,) bool, rows whose given label may be wrong."""
        return torch.ones(len(self), dtype=torch.bool) if self.trusted is None else ~self.trusted

    def subset(self, indices: Tensor) -> GivenLabels:
        """The labels at these indices, renumbered from 0 in this order."""
        trusted = None if self.trusted is None else self.trusted[indices]
        before = None if self.before is None else self.before[indices]
        return GivenLabels(self.values[indices], self.num_classes, trusted, before)

    @property
    def verified(self) -> Tensor:
        """(N,) bool, trusted rows of which nothing is known about the label before."""
        sure = ~self.unverified
        return sure if self.before is None else sure & (self.before == UNKNOWN)

    @property
    def doubted(self) -> Tensor:
        """(N,) int64: the class as it was given, before people said what a row is."""
        return (
            self.hard if self.before is None else torch.where(self.before == UNKNOWN, self.hard, self.before)
        )

    def _check(self) -> None:
        if self.values.dim() == 2 and self.values.shape[1] != self.num_classes:
            raise DataError(
                f"labels have {self.values.shape[1]} columns but num_classes is {self.num_classes}"
            )
        if self.values.dim() == 1 and len(self):
            self._check_range()
        self._check_trusted()

    def _check_range(self) -> None:
        low, high = int(self.values.argmin()), int(self.values.argmax())
        if int(self.values[low]) < 0:
            raise DataError(
                f"labels must be class indices from 0; found {int(self.values[low])} in row {low}; number the "
                "classes from 0"
            )
        if int(self.values[high]) >= self.num_classes:
            raise DataError(
                f"label {int(self.values[high])} is out of range for {self.num_classes} classes (0 to C - 1), in "
                f"row {high}; number the classes from 0"
            )

    def _check_trusted(self) -> None:
        if self.trusted is not None and self.trusted.shape != (len(self),):
            raise DataError(
                f"trusted must have one entry per label: {len(self)}, got {tuple(self.trusted.shape)}"
            )


def count_classes(labels: Tensor, num_rows: int | None = None) -> int:
    """How many classes the class numbers (N,) need; refuses one far beyond the number of rows, N by default."""
    most = (len(labels) if num_rows is None else num_rows) + SPARE_CLASSES
    last = int(labels.argmax())
    if int(labels[last]) >= most:
        raise DataError(
            f"labels, row {last}: class number {int(labels[last]):,} is far beyond the {most - SPARE_CLASSES:,} "
            "rows there are; number the classes from 0, or name them"
        )
    return int(labels[last]) + 1


def _numbers(labels: Any) -> Tensor:
    """Labels as a tensor; a column (N, 1) is as good as a list (N,)."""
    try:
        values = torch.as_tensor(labels)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(f"labels must be class numbers from 0 ({error}); number the classes") from error
    if values.is_complex():
        raise DataError("labels must be class numbers from 0, not complex numbers; number the classes")
    return values[:, 0] if values.dim() == 2 and values.shape[1] == 1 else values


def _hard(labels: Tensor) -> Tensor:
    if labels.is_floating_point():
        bad = ~(labels.abs() < 2**53) | (labels != labels.round())
        if bool(bad.any()):
            row = int(bad.nonzero()[0])
            raise DataError(
                f"labels (N,) must be whole class indices, found {float(labels[row])} in row {row}; fix that "
                "row, or for soft labels give a matrix (N, C)"
            )
    return labels.long().clone()  # the caller may go on changing theirs


def _soft(labels: Tensor) -> Tensor:
    values = labels.float()
    totals = values.sum(dim=1, keepdim=True)
    bad = ~torch.isfinite(totals[:, 0]) | (values < 0).any(dim=1) | (totals[:, 0] <= 0)
    if bool(bad.any()):
        row = int(bad.nonzero()[0])
        raise DataError(
            "soft labels or votes (N, C) must be finite and not negative, with a positive sum in each row; "
            f"fix row {row}: {[round(value, 4) for value in values[row].tolist()[:8]]}"
        )
    return values / totals
