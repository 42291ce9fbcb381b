"""Bounds on the number of errors among N labels, of which a random sample was checked (formulas: ``docs/audit.md``).

Counts are exact: the hypergeometric distribution is summed in integers, so a certificate gives the same bounds on every
machine.

Legend: N labels, D of them wrong (unknown), n checked, k of these wrong, α the risk that a bound does not hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

SHARES = (0.3, 0.5, 0.7, 0.9, 1.0)
"""The stakes c of the live bound, as shares of the largest stake allowed. All start with the same capital."""


def chance_of_at_most(k: int, size: int, wrong: int, checked: int) -> Fraction:
    """P(X ≤ k) for X ~ Hyp(N = size, D = wrong, n = checked), as an exact fraction."""
    if k >= min(wrong, checked):
        return Fraction(1)
    right = size - wrong
    first = max(0, checked - right)
    if k < first:
        return Fraction(0)
    term = math.comb(wrong, first) * math.comb(right, checked - first)
    total = term
    for i in range(first, k):  # each term from the one before: the divisions leave no remainder
        term = term * (wrong - i) * (checked - i) // ((i + 1) * (right - checked + i + 1))
        total += term
    return Fraction(total, math.comb(size, checked))


def most_errors(size: int, checked: int, errors: int, alpha: float) -> int:
    """The exact upper bound: the largest D with P(Hyp(N, D, n) ≤ k) > α."""
    risk = _exact(alpha)
    return _last(
        lambda wrong: chance_of_at_most(errors, size, wrong, checked) > risk, errors, size - checked + errors
    )


def fewest_errors(size: int, checked: int, errors: int, alpha: float) -> int:
    """The exact lower bound: the smallest D with P(Hyp(N, D, n) ≥ k) > α."""
    return size - most_errors(size, checked, checked - errors, alpha)  # the same bound on right labels


def capital(size: int, limit: int, wrong: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The betting capital against "at least ``limit`` labels are wrong" after each answer.

    Before answer t, m = (limit − errors so far)/(N − t + 1) is the smallest chance of an error under that hypothesis.
    A bet of stake λ = c/(1 − m) multiplies the capital by 1 + λ(m − x). If the hypothesis holds, the capital does not
    grow on average, so it ever reaches 1/α with probability at most α (Ville).

    Args:
        size: N.
        limit: The hypothesis.
        wrong: (..., n) whether each checked label is wrong, in the order drawn.

    Returns:
        The capital (..., n), which is 1 before the first answer.
    """
    expected = np.maximum(limit - (np.cumsum(wrong, axis=-1) - wrong), 0)  # wrong labels left, at least
    others = size - np.arange(wrong.shape[-1]) - expected
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        odds = np.where(others > 0, expected / others, np.inf)  # infinite: a right label was impossible
        bets = (np.cumprod(np.where(wrong, 1 - share, 1 + share * odds), axis=-1) for share in SHARES)
        total = sum(np.nan_to_num(bet, nan=0.0, posinf=np.inf) for bet in bets)
    return np.asarray(total / len(SHARES))


def live_bound(size: int, answers: Sequence[bool], alpha: float) -> int:
    """The largest number of errors that the answers so far (True: wrong) do not rule out at risk α.

    It holds at all times at once: the auditor may look at it after every answer and stop at any time. The capital grows
    with the limit, because an error costs the same share of it at every limit and a right label gains more at a higher
    one. The limits that are ruled out are therefore all those above the bound.
    """
    wrong = np.array(answers, bool)
    return _last(lambda limit: _is_possible(size, limit, wrong, alpha), int(wrong.sum()), size)


def _is_possible(size: int, limit: int, wrong: NDArray[np.bool_], alpha: float) -> bool:
    return bool(capital(size, limit, wrong).max(initial=0.0) < 1 / alpha)


def looks_to_certify(size: int, answers: Sequence[bool], alpha: float, max_errors: int) -> int:
    """How many further right answers in a row bring the live bound to ``max_errors``; 0 if it is there."""
    left = size - len(answers)
    if sum(answers) > max_errors or max_errors >= size:
        return left if sum(answers) > max_errors else 0
    more, reached = 64, np.zeros(0, bool)
    while not reached.any():  # at the latest when no label is left: an exact count is certain
        more = min(2 * more, left)
        wrong = np.array([*answers, *[False] * more], bool)
        reached = capital(size, max_errors + 1, wrong) >= 1 / alpha
    return max(int(reached.argmax()) + 1 - len(answers), 0)


def checks_needed(size: int, alpha: float, max_errors: int, errors: int = 0) -> int:
    """The smallest sample whose exact bound is ``max_errors`` or less if ``errors`` of the sample are wrong."""
    risk = _exact(alpha)
    if max_errors >= size:
        return 0
    return 1 + _last(
        lambda n: chance_of_at_most(errors, size, max_errors + 1, n) > risk, min(errors, size), size
    )


class Passed(NamedTuple):
    """One of the nested sets of a fixed sequence: its size, the sample within it, and its p-value."""

    size: int
    checked: int
    errors: int
    p_value: float
    certified: bool


def fixed_sequence(
    sets: Sequence[tuple[int, int, int]], max_error: float, alpha: float
) -> tuple[Passed, ...]:
    """Learn-then-Test: certify nested sets (N, n, k) one after the other, until the first that fails.

    The sets and their order must be fixed before the first answer. The risk that any of the certified sets has a larger
    share of errors than ``max_error`` is at most α, without a correction for their number.
    """
    passed, going = [], True
    for size, checked, errors in sets:
        p_value = chance_of_at_most(errors, size, min(allowed(size, max_error) + 1, size), checked)
        going = going and (p_value <= _exact(alpha) or allowed(size, max_error) >= size)
        passed.append(Passed(size, checked, errors, float(p_value), going))
    return tuple(passed)


def allowed(size: int, max_error: float) -> int:
    """The largest number of errors among N labels whose share is at most ``max_error``."""
    return math.floor(_exact(max_error) * size)


def _exact(value: float) -> Fraction:
    """The decimal number that a float stands for: 0.05 is 1/20."""
    return Fraction(repr(value))


def _last(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The last of ``low``, …, ``high`` where a condition holds; it holds at ``low``, and not again once it fails."""
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low
