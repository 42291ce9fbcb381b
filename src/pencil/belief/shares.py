"""What a belief says about the noise of all labels: shares, without upper ends, which one label a row cannot give.

Legend: B rows, C classes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from pencil.algorithm import Rows, TopRows
from pencil.belief.belief import SHARE, surely
from pencil.belief.claims import Checks, least_wrong
from pencil.estimates.noise import AUDIT, Alarm, Interval, NoiseEstimate
from pencil.estimates.structure import MOST_CLASSES


class NoiseSums:
    """Sums over rows that the noise of their labels follows from.

    Args:
        num_classes: C.
    """

    def __init__(self, num_classes: int) -> None:
        self._classes = num_classes
        kept = num_classes if num_classes <= MOST_CLASSES else 0
        self._joint = torch.zeros(kept, num_classes, dtype=torch.float64)
        """Σ of the probability of each class, by given class."""
        self._given, self._wrong, self._suggested = list[Tensor](), list[Tensor](), 0.0

    def add(self, posterior: Rows, given: Tensor) -> None:
        """Add rows: the probability of each class (B, C), whole or cut, and the given classes (B,)."""
        known = (given >= 0).nonzero()[:, 0]
        posterior, given = posterior[known], given[known]
        at = given[:, None]
        right = posterior.at(at) if isinstance(posterior, TopRows) else posterior.gather(1, at)
        self._given.append(given)
        self._wrong.append(1 - right[:, 0].float())
        self._suggested += float((1 - posterior.max(dim=1).values.double()).sum())
        if len(self._joint):
            whole = posterior.dense() if isinstance(posterior, TopRows) else posterior
            self._joint.index_add_(0, given, whole.double())

    @property
    def wrong(self) -> Tensor:
        """(N,) the probability that the given class is wrong, of the rows that were added."""
        return torch.cat(self._wrong) if self._wrong else torch.zeros(0)

    def of_all(self, given: Tensor, wrong: Tensor, total: Callable[[Tensor], Tensor]) -> NoiseSums:
        """Those of the rows of all ranks, with their given classes and how likely each is wrong."""
        whole = NoiseSums(self._classes)
        whole._given, whole._wrong = [given], [wrong]
        whole._joint = total(self._joint)
        whole._suggested = float(total(torch.tensor([self._suggested], dtype=torch.float64)))
        return whole

    def noise(self, checks: Checks) -> NoiseEstimate:
        """The noise of all rows, by the checks of what may be claimed."""
        given, wrong, classes = torch.cat(self._given), self.wrong.double(), self._classes
        rows = torch.bincount(given, minlength=classes)
        value = torch.bincount(given, wrong, classes) / rows.clamp_min(1)
        least = torch.zeros(classes, dtype=torch.float64)
        if checks.passed:
            parts = wrong[given.argsort()].split(rows.tolist())
            least = torch.tensor([least_wrong(part) for part in parts], dtype=torch.float64)
        matrix = self._matrix()
        return NoiseEstimate(
            rate=Interval(float(wrong.mean()), least_wrong(wrong) if checks.passed else 0.0, 1.0),
            per_class=torch.stack([value, least.minimum(value), torch.ones_like(value)], 1).float(),
            matrix=matrix,
            matrix_low=torch.zeros_like(matrix),
            matrix_high=torch.ones_like(matrix),
            suggested_error=Interval(self._suggested / max(len(wrong), 1), 0.0, 1.0),
            alarms=(),
            surest=1.0 if checks.passed else 0.0,
        )

    def _matrix(self) -> Tensor:
        """P(given | true) (C, C); a class that no row seems to have keeps its label."""
        rows = self._joint.T.sum(1, keepdim=True)
        found = torch.where(rows > 1e-6, self._joint.T / rows.clamp_min(1e-6), torch.eye(len(self._joint)))
        return found.float() if len(self._joint) else torch.zeros(0, 0)


def noise_of(posterior: Tensor, given: Tensor, checks: Checks) -> NoiseEstimate:
    """The noise of the given labels (N,), by the posterior (N, C + 1) and the checks of what may be claimed."""
    sums = NoiseSums(posterior.shape[1] - 1)
    sums.add(posterior[:, :-1], given)
    return replace(sums.noise(checks), alarms=alarms_of(posterior, given, checks))


def alarms_of(posterior: Tensor, given: Tensor, checks: Checks) -> tuple[Alarm, ...]:
    """An alarm if a check failed, and labels would be replaced if it had not."""
    unclear = not checks.known or (
        not checks.passed and bool(surely(posterior, given, SHARE, checks.doubt).any())
    )
    return (Alarm("unclear", checks.reason, AUDIT),) if unclear else ()
