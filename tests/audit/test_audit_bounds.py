"""Bounds against plain enumeration of every sample and every order."""

from fractions import Fraction
from itertools import combinations, permutations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pencil.audit.bounds import (
    SHARES,
    allowed,
    capital,
    chance_of_at_most,
    checks_needed,
    fewest_errors,
    fixed_sequence,
    live_bound,
    looks_to_certify,
    most_errors,
)


@st.composite
def samples(draw, largest=40):
    """Size, checked, errors and whether they are possible together."""
    size = draw(st.integers(1, largest))
    checked = draw(st.integers(0, size))
    return size, checked, draw(st.integers(0, checked))


def test_the_distribution_is_that_of_counted_samples():
    for size in range(1, 8):
        for wrong in range(size + 1):
            for checked in range(size + 1):
                counts = [
                    sum(item < wrong for item in sample) for sample in combinations(range(size), checked)
                ]
                for k in range(-1, checked + 2):
                    share = Fraction(sum(count <= k for count in counts), len(counts))
                    assert chance_of_at_most(k, size, wrong, checked) == share


@given(samples(), st.sampled_from([0.01, 0.05, 0.3]))
def test_the_exact_bounds_are_the_first_and_last_number_that_the_sample_does_not_rule_out(sample, alpha):
    size, checked, errors = sample
    risk = Fraction(str(alpha))
    possible = range(errors, size - checked + errors + 1)
    not_too_few = [w for w in possible if chance_of_at_most(errors, size, w, checked) > risk]
    not_too_many = [w for w in possible if 1 - chance_of_at_most(errors - 1, size, w, checked) > risk]
    assert most_errors(size, checked, errors, alpha) == max(not_too_few)
    assert fewest_errors(size, checked, errors, alpha) == min(not_too_many)


@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_the_exact_bounds_fail_as_rarely_as_they_say(alpha):
    size, checked = 30, 9
    for wrong in range(size + 1):
        chances = {
            k: comb(wrong, k) * comb(size - wrong, checked - k) / comb(size, checked)
            for k in range(checked + 1)
            if k <= wrong
        }
        too_low = sum(p for k, p in chances.items() if p and most_errors(size, checked, k, alpha) < wrong)
        too_high = sum(p for k, p in chances.items() if p and fewest_errors(size, checked, k, alpha) > wrong)
        assert max(too_low, too_high) <= alpha


def test_known_figures():
    assert most_errors(1751, 60, 0, 0.05) == 83
    assert [checks_needed(size, 0.05, allowed(size, 0.05)) for size in (200, 500, 10_000)] == [47, 54, 59]
    assert looks_to_certify(2000, [], 0.05, 100) == 72


def test_the_bounds_of_large_sets_are_those_of_clopper_and_pearson():
    """The figures of docs/audit.md, and without an error their closed form."""
    counts = ((60, 0), (60, 1), (60, 2), (93, 1), (124, 2), (153, 3))
    shares = [most_errors(10**7, *each, 0.05) / 10**7 for each in counts]
    assert [round(100 * share, 1) for share in shares] == [4.9, 7.7, 10.1, 5.0, 5.0, 5.0]
    assert most_errors(10**7, 50, 0, 0.05) / 10**7 == pytest.approx(1 - 0.05 ** (1 / 50), abs=1e-5)


@given(st.integers(1, 300), st.integers(0, 3), st.sampled_from([0.01, 0.05, 0.2]))
def test_the_smallest_sample_that_certifies_is_found(size, errors, alpha):
    limit = allowed(size, 0.05)
    needed = checks_needed(size, alpha, limit, errors)
    if errors <= limit:
        assert most_errors(size, needed, min(errors, needed), alpha) <= limit
    if needed > errors:
        assert most_errors(size, needed - 1, errors, alpha) > limit


def naive_capital(size, limit, answers):
    """The product of the bets by the formula, for each stake."""
    total = 0.0
    for share in SHARES:
        worth, seen = 1.0, 0
        for number, x in enumerate(answers):
            m = max(limit - seen, 0) / (size - number)
            worth *= 1 + share / (1 - m) * (m - x)
            seen += x
        total += worth / len(SHARES)
    return total


@given(st.lists(st.booleans(), max_size=30), st.integers(0, 40))
def test_the_capital_is_the_mixture_of_the_bets(answers, limit):
    course = capital(100, limit, np.array(answers, bool))
    expected = [naive_capital(100, limit, answers[: t + 1]) for t in range(len(answers))]
    assert course.tolist() == pytest.approx(expected)
    both = np.array([answers, answers[::-1]], bool)
    assert np.array_equal(capital(100, limit, both)[0], course)


@given(st.lists(st.booleans(), max_size=20), st.integers(0, 20), st.sampled_from([0.05, 0.3]))
def test_the_live_bound_is_the_last_number_that_no_capital_rules_out(answers, more, alpha):
    size = len(answers) + more
    wrong, counts = np.array(answers, bool), range(sum(answers), size + 1)
    possible = [d for d in counts if capital(size, d, wrong).max(initial=0) < 1 / alpha]
    assert live_bound(size, answers, alpha) == max(possible, default=sum(answers))
    assert possible == list(range(sum(answers), sum(answers) + len(possible)))  # monotone
    if not more:
        assert live_bound(size, answers, alpha) == sum(answers)


@pytest.mark.parametrize("alpha", [0.1, 0.3])
def test_the_live_bound_is_ever_wrong_in_few_of_all_orders(alpha):
    size = 8
    for wrong in range(size + 1):
        orders = sorted(set(permutations([True] * wrong + [False] * (size - wrong))))
        bad = sum(
            any(live_bound(size, order[:t], alpha) < wrong for t in range(size + 1)) for order in orders
        )
        assert bad <= alpha * len(orders)


@given(st.lists(st.booleans(), max_size=12), st.integers(12, 200), st.integers(0, 10))
def test_the_looks_to_go_are_the_fewest_that_certify(answers, size, limit):
    more = looks_to_certify(size, answers, 0.05, limit)
    if sum(answers) > limit:
        assert more == size - len(answers)
        return
    assert live_bound(size, [*answers, *[False] * more], 0.05) <= limit
    assert not more or live_bound(size, [*answers, *[False] * (more - 1)], 0.05) > limit


def test_a_fixed_sequence_stops_at_the_first_failure():
    sets = [(500, 60, 0), (800, 90, 0), (1000, 130, 9), (1200, 400, 0)]
    passed = fixed_sequence(sets, 0.05, 0.05)
    assert [each.certified for each in passed] == [True, True, False, False]
    assert passed[3].p_value < 0.05  # it would pass alone
    assert passed[0].p_value == pytest.approx(float(chance_of_at_most(0, 500, 26, 60)))
    assert fixed_sequence([(3, 0, 0)], 1.0, 0.05)[0].certified  # nothing to certify


def test_the_fixed_sequence_certifies_wrongly_as_rarely_as_it_says():
    """Every sample of 6 of 12 labels, three nested sets; the middle one has too many errors."""
    wrong, limits, alpha = {4, 5, 6, 7, 8}, (4, 8, 12), 0.2
    bad, count = 0, 0
    for sample in combinations(range(12), 6):
        sets = [(n, sum(i < n for i in sample), sum(i < n and i in wrong for i in sample)) for n in limits]
        passed = fixed_sequence(sets, 0.25, alpha)
        truth = [sum(i < n for i in wrong) / n > 0.25 for n in limits]
        bad += any(each.certified and false for each, false in zip(passed, truth, strict=True))
        count += 1
    assert bad <= alpha * count
    assert bad > 0
