"""Means, deviations, and confidence intervals of paired differences."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """Mean and sample standard deviation of ``count`` values; of one value there is no deviation."""

    mean: float
    std: float | None
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """From at least one value."""
        std = statistics.stdev(values) if len(values) > 1 else None
        return cls(statistics.fmean(values), std, len(values))


@dataclass(frozen=True)
class Difference:
    """Mean of paired differences, with half the width of its confidence interval where there are two pairs or more."""

    mean: float
    half_width: float | None
    count: int

    @classmethod
    def of(cls, values: Sequence[float], reference: Sequence[float], confidence: float = 0.95) -> Difference:
        """Student's interval: mean ± t s / √n over d_i = value_i - reference_i."""
        spread = Spread.of([mine - other for mine, other in zip(values, reference, strict=True)])
        if spread.std is None:
            return cls(spread.mean, None, spread.count)
        half_width = student_quantile(confidence, spread.count - 1) * spread.std / math.sqrt(spread.count)
        return cls(spread.mean, half_width, spread.count)


def student_quantile(confidence: float, degrees: int) -> float:
    """The t with P(|T| < t) = ``confidence``, for Student's T with whole ``degrees`` of freedom."""
    low, high = 0.0, 1.0
    while student_share(high, degrees) < confidence:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if student_share(middle, degrees) < confidence else (low, middle)
    return (low + high) / 2


def student_share(t: float, degrees: int) -> float:
    """P(|T| < t) by the finite series for whole degrees of freedom (Abramowitz & Stegun 26.7.3 and 26.7.4).

    With θ = atan(t / √ν): for even ν, sin θ (1 + 1/2 cos² θ + 1·3/(2·4) cos⁴ θ + ... up to cos^(ν-2) θ); for odd ν,
    2/π (θ + sin θ (cos θ + 2/3 cos³ θ + 2·4/(3·5) cos⁵ θ + ... up to cos^(ν-2) θ)).
    """
    theta = math.atan(t / math.sqrt(degrees))
    odd = degrees % 2
    term, total = math.cos(theta) if odd else 1.0, 0.0
    for power in range(odd, degrees - 1, 2):
        total += term
        term *= (power + 1) / (power + 2) * math.cos(theta) ** 2
    share = math.sin(theta) * total
    return 2 / math.pi * (theta + share) if odd else share
