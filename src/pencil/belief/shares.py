"""What a belief says about the noise of all labels: shares, without upper ends, which one label a row cannot give.

Legend: N rows, C classes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pencil.belief.belief import surely
from pencil.belief.claims import Checks, least_wrong
from pencil.estimates.noise import AUDIT, Alarm, Interval, NoiseEstimate
from pencil.estimates.structure import MOST_CLASSES


def noise_of(posterior: Tensor, given: Tensor, checks: Checks) -> NoiseEstimate:
    """The noise of the given labels (N,), by the posterior (N, C + 1) and the checks of what may be claimed."""
    classes = posterior.shape[1] - 1
    wrong = 1 - posterior.gather(1, given[:, None])[:, 0].double()
    rows = torch.bincount(given, minlength=classes)
    value = torch.bincount(given, wrong, classes) / rows.clamp_min(1)
    least = torch.zeros(classes, dtype=torch.float64)
    if checks.passed:
        least = torch.tensor([least_wrong(part) for part in wrong[given.argsort()].split(rows.tolist())])
    unclear = not checks.known or (not checks.passed and bool(surely(posterior, given).any()))
    matrix = _matrix(posterior, given) if classes <= MOST_CLASSES else torch.zeros(0, 0)
    return NoiseEstimate(
        rate=Interval(float(wrong.mean()), least_wrong(wrong) if checks.passed else 0.0, 1.0),
        per_class=torch.stack([value, least.to(value).minimum(value), torch.ones_like(value)], 1).float(),
        matrix=matrix,
        matrix_low=torch.zeros_like(matrix),
        matrix_high=torch.ones_like(matrix),
        suggested_error=Interval(float(1 - posterior[:, :-1].amax(1).double().mean()), 0.0, 1.0),
        alarms=(Alarm("unclear", checks.reason, AUDIT),) if unclear else (),
        surest=1.0 if checks.passed else 0.0,
    )


def _matrix(posterior: Tensor, given: Tensor) -> Tensor:
    """P(given | true) (C, C); a class that no row seems to have keeps its label."""
    classes = posterior.shape[1] - 1
    joint = torch.zeros(classes, classes).index_add_(0, given, posterior[:, :-1]).T
    rows = joint.sum(1, keepdim=True)
    return torch.where(rows > 1e-6, joint / rows.clamp_min(1e-6), torch.eye(classes))
