"""Error rates of a whole set from random samples of its strata (``docs/audit.md`` has the formulas)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pencil.audit.bounds import fewest_errors, live_bound, most_errors

NORMAL = 1.959964  # two-sided 95 % point of the normal distribution, for the approximate interval
WORST_VARIANCE = 0.25  # of a share; used where a sample is too small to show one


class Rate(NamedTuple):
    """A share of wrong labels with its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Stratum:
    """A stratum and the answers for its sample, in the order drawn.

    Attributes:
        size: The number of labels.
        wrong: Whether each checked label is wrong; None if the auditor could not tell.
        expected: The estimated P(wrong) of each checked label.
        mean_expected: Its mean over all labels of the stratum.
    """

    size: int
    wrong: Sequence[bool | None]
    expected: Sequence[float]
    mean_expected: float

    @property
    def most_wrong(self) -> list[bool]:
        """The answers, with labels that the auditor could not judge counted as wrong."""
        return [each is not False for each in self.wrong]

    @property
    def errors(self) -> int:
        """The number of labels that are wrong for certain."""
        return sum(each is True for each in self.wrong)

    @property
    def share(self) -> float:
        """The share of wrong labels among those judged; 0.5 if none was."""
        judged = sum(each is not None for each in self.wrong)
        return self.errors / judged if judged else 0.5


def stratified_rate(strata: Sequence[Stratum], alpha: float) -> Rate:
    """Σ W k/n, with the sums of exact bounds as its interval. Each stratum takes an equal part of the risk α.

    Labels that the auditor could not judge count as right in the lower bound and as wrong in the upper bound.
    """
    risk = alpha / len(strata) / 2
    total = sum(each.size for each in strata)
    low = sum(fewest_errors(each.size, len(each.wrong), each.errors, risk) for each in strata)
    high = sum(most_errors(each.size, len(each.wrong), sum(each.most_wrong), risk) for each in strata)
    return Rate(sum(each.size * each.share for each in strata) / total, low / total, high / total)


def live_rate(strata: Sequence[Stratum], alpha: float) -> float:
    """An upper bound on the share of wrong labels that holds after every answer."""
    highs = (live_bound(each.size, each.most_wrong, alpha / len(strata)) for each in strata)
    return sum(highs) / sum(each.size for each in strata)


def difference_rate(strata: Sequence[Stratum]) -> Rate:
    """The difference estimate Σ W (mean q + mean (x − q)), with an approximate 95 % interval.

    q is the estimated P(wrong) and x the answer. The estimate is unbiased whether q is right or not; the better q, the
    narrower the interval. The interval is a normal approximation, not an exact one.
    """
    total = sum(each.size for each in strata)
    value = variance = 0.0
    for each in strata:
        weight, gaps = each.size / total, _gaps(each)
        mean = sum(gaps) / len(gaps) if gaps else 0.0
        value += weight * (each.mean_expected + mean)
        variance += weight**2 * _variance_of_mean(gaps, mean, each.size)
    reach = NORMAL * math.sqrt(variance)
    return Rate(*(min(max(bound, 0.0), 1.0) for bound in (value, value - reach, value + reach)))


def _gaps(stratum: Stratum) -> list[float]:
    """The differences x − q of the labels that the auditor could judge."""
    pairs = zip(stratum.wrong, stratum.expected, strict=True)
    return [float(wrong) - expected for wrong, expected in pairs if wrong is not None]


def _variance_of_mean(gaps: Sequence[float], mean: float, size: int) -> float:
    count = len(gaps)
    if count >= size:
        return 0.0
    spread = sum((gap - mean) ** 2 for gap in gaps) / (count - 1) if count > 1 else WORST_VARIANCE
    return (1 - count / size) * spread / max(count, 1)
