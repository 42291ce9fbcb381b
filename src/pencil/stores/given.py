"""The labels that came with the examples, row by row: hard, soft, or votes; some of them trusted."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pencil.errors import DataError


@dataclass(frozen=True, eq=False)
class GivenLabels:
    """ŷ for every row.

    Attributes:
        values: Class indices (N,) int64, or distributions (N, C) float32.
        num_classes: C.
        trusted: (N,) bool, rows whose given label is known to be right and never moves; None for none.
    """

    values: Tensor
    num_classes: int
    trusted: Tensor | None = None

    @classmethod
    def of(cls, labels: Tensor, num_classes: int | None = None, trusted: Tensor | None = None) -> GivenLabels:
        """From class indices (N,), or from soft labels or annotators' vote counts (N, C)."""
        labels = torch.as_tensor(labels)
        if labels.dim() not in (1, 2):
            raise DataError(
                f"labels must be classes (N,) or a matrix (N, C), not of shape {tuple(labels.shape)}"
            )
        if len(labels) == 0 and num_classes is None and labels.dim() == 1:
            raise DataError("labels are empty; give num_classes")
        values = _hard(labels) if labels.dim() == 1 else _soft(labels)
        classes = num_classes or (values.shape[1] if values.dim() == 2 else int(values.max()) + 1)
        given = cls(values, classes, None if trusted is None else torch.as_tensor(trusted).bool())
        given._check()
        return given

    def __len__(self) -> int:
        return self.values.shape[0]

    @property
    def hard(self) -> Tensor:
        """(N,) int64: the given class, for soft labels the likeliest."""
        return self.values if self.values.dim() == 1 else self.values.argmax(dim=1)

    def subset(self, rows: Tensor) -> GivenLabels:
        """The labels of some rows, renumbered from 0 in the order asked for."""
        trusted = None if self.trusted is None else self.trusted[rows]
        return GivenLabels(self.values[rows], self.num_classes, trusted)

    def _check(self) -> None:
        if self.values.dim() == 2 and self.values.shape[1] != self.num_classes:
            raise DataError(
                f"labels have {self.values.shape[1]} columns but num_classes is {self.num_classes}"
            )
        if self.values.dim() == 1 and len(self) and int(self.values.min()) < 0:
            raise DataError(f"labels must be class indices from 0; found {int(self.values.min())}")
        if self.values.dim() == 1 and len(self) and int(self.values.max()) >= self.num_classes:
            raise DataError(
                f"label {int(self.values.max())} is out of range for {self.num_classes} classes (0 to C - 1)"
            )
        if self.trusted is not None and self.trusted.shape != (len(self),):
            raise DataError(
                f"trusted must have one entry per label: {len(self)}, got {tuple(self.trusted.shape)}"
            )


def _hard(labels: Tensor) -> Tensor:
    if labels.is_floating_point() and not torch.equal(labels, labels.round()):
        raise DataError("labels (N,) must be whole class indices; for soft labels give a matrix (N, C)")
    return labels.long().clone()  # the caller may go on changing theirs


def _soft(labels: Tensor) -> Tensor:
    values = labels.float()
    totals = values.sum(dim=1, keepdim=True)
    if not bool(torch.isfinite(values).all()) or bool((values < 0).any()) or bool((totals <= 0).any()):
        raise DataError(
            "soft labels or votes (N, C) must be finite and not negative, with a positive sum in each row"
        )
    return values / totals
