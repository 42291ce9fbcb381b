"""Which labels may be replaced within a stated share of errors.

A row is a *candidate* if its most likely class differs from the given one; its confidence is the probability that the
suggestion is right. Candidates are taken in order of confidence p, highest first. Σ (1 − p) of them is the expected
number of wrong replacements, and its standard deviation is √ Σ p (1 − p). As many are taken as possible while both
together stay within the asked share, so that few candidates must be surer than many. Each class keeps a share of its
given labels, so that a rare class cannot disappear.

Candidates are counted in bins of 1 − confidence, 64 for each halving, so memory does not grow with the number of rows
and counts of several ranks add up. Legend: B rows, C classes.
"""

from __future__ import annotations

import torch
from torch import Tensor

STEPS, HALVINGS = 64, 24  # float32 cannot hold 1 − confidence below 2⁻²⁴
EDGES = 1 - torch.exp2(-torch.arange(STEPS * HALVINGS) / STEPS).float()
"""The lowest confidence in each bin."""
COARSE = 8
"""Bins counted by class have this many edges between them."""
NEVER = 2.0
"""A threshold that no confidence reaches."""


class RelabelCounts:
    """Counts of candidates by confidence, and of all rows by given class.

    Args:
        num_classes: C.
        surest: The largest confidence that counts; less than 1 if the estimates are not to be trusted.
    """

    def __init__(self, num_classes: int, surest: float = 1.0) -> None:
        self._surest = surest
        self.rows = torch.zeros(len(EDGES), dtype=torch.long)
        self.errors = torch.zeros(len(EDGES), dtype=torch.float64)  # Σ (1 − p)
        self.variance = torch.zeros(len(EDGES), dtype=torch.float64)  # Σ p (1 − p)
        self.given = torch.zeros(num_classes, dtype=torch.long)
        self.by_class = torch.zeros(num_classes, len(EDGES) // COARSE, dtype=torch.long)

    def add(self, given: Tensor, confidence: Tensor, candidate: Tensor) -> None:
        """Count rows: given classes (B,), confidences (B,) and whether they are candidates (B,) bool."""
        self.given += given.bincount(minlength=len(self.given))
        given, confidence = given[candidate], confidence[candidate].float().clamp_max(self._surest)
        bins = torch.bucketize(confidence, EDGES, right=True) - 1
        self.rows += bins.bincount(minlength=len(EDGES))
        error = (1 - confidence.double()).clamp_min(2.0**-HALVINGS)  # no label is certain
        self.errors.index_add_(0, bins, error)
        self.variance.index_add_(0, bins, error * (1 - error))
        flat = given * self.by_class.shape[1] + bins // COARSE
        self.by_class += flat.bincount(minlength=self.by_class.numel()).view_as(self.by_class)

    def thresholds(self, asked: float, floor: float) -> Tensor:
        """The lowest confidence (C,) at which a label of each given class is replaced; ``NEVER`` for none.

        Args:
            asked: The largest share of wrong replacements.
            floor: The share of the given labels that each class keeps.
        """
        return self._floors(floor).clamp_min(self._overall(asked))

    def _overall(self, asked: float) -> float:
        rows, errors, variance = (
            values.flip(0).cumsum(0).flip(0) for values in (self.rows, self.errors, self.variance)
        )
        allowed = ((errors + variance.sqrt() <= asked * rows) & (self.rows > 0)).nonzero()
        return float(EDGES[allowed[0, 0]]) if len(allowed) else NEVER

    def _floors(self, floor: float) -> Tensor:
        """The lowest edge (C,) above which no class loses more than it may."""
        most = ((1 - floor) * self.given).long()[:, None]
        leaving = self.by_class.flip(1).cumsum(1).flip(1)
        fits = torch.cat([leaving <= most, torch.ones_like(most, dtype=torch.bool)], dim=1)
        edges = torch.cat([EDGES[::COARSE], torch.tensor([NEVER])])
        return edges[fits.long().argmax(dim=1)]
