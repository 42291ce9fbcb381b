"""Rates of a whole set from samples of its strata."""

from itertools import combinations, product

import pytest

from pencil.audit.bounds import live_bound
from pencil.audit.strata import Stratum, difference_rate, live_rate, stratified_rate


def stratum(size, wrong, expected=0.5):
    return Stratum(size=size, wrong=wrong, expected=[expected] * len(wrong), mean_expected=expected)


def test_the_whole_rate_weighs_strata_by_size():
    keep, review = stratum(900, [False] * 9 + [True]), stratum(100, [True] * 5 + [False] * 5)
    rate = stratified_rate([keep, review], 0.05)
    assert rate.value == pytest.approx(0.9 * 0.1 + 0.1 * 0.5)
    assert rate.low < rate.value < rate.high
    whole = stratified_rate([stratum(4, [True, False, False, True]), stratum(1, [False])], 0.05)
    assert whole == (0.4, 0.4, 0.4)


def test_the_interval_misses_as_rarely_as_it_says():
    """Every pair of samples of two small strata."""
    first, second, alpha = [True, True, False, False, False, False], [True, False, False, False], 0.2
    truth = 3 / 10
    samples = list(product(combinations(first, 3), combinations(second, 2)))
    rates = [stratified_rate([stratum(6, a), stratum(4, b)], alpha) for a, b in samples]
    missed = sum(not rate.low <= truth <= rate.high for rate in rates)
    assert missed <= alpha * len(samples)
    assert sum(rate.value for rate in rates) / len(rates) == pytest.approx(truth)


def test_labels_nobody_can_judge_widen_the_interval_to_both_sides():
    known = stratified_rate([stratum(100, [True] * 5 + [False] * 15)], 0.05)
    right, wrong = ([True] * 4 + [last] + [False] * 15 for last in (False, True))
    unsure = stratified_rate([stratum(100, [True] * 4 + [None] + [False] * 15)], 0.05)
    assert unsure.low == stratified_rate([stratum(100, right)], 0.05).low
    assert unsure.high == stratified_rate([stratum(100, wrong)], 0.05).high == known.high
    assert unsure.value == pytest.approx(4 / 19)
    assert stratum(10, [None]).share == 0.5


def test_the_live_rate_adds_live_bounds():
    parts = [stratum(50, [False] * 20), stratum(30, [True, None, False])]
    highs = live_bound(50, [False] * 20, 0.025) + live_bound(30, [True, True, False], 0.025)
    assert live_rate(parts, 0.05) == highs / 80


def test_the_difference_estimate_is_unbiased_and_narrow_where_the_estimate_is_good():
    truth = [True, False, True, False, False, False]
    guesses = [0.9, 0.2, 0.6, 0.1, 0.4, 0.1]
    mean = sum(guesses) / 6
    rates = [
        difference_rate(
            [
                Stratum(
                    size=6, wrong=[truth[i] for i in s], expected=[guesses[i] for i in s], mean_expected=mean
                )
            ]
        )
        for s in combinations(range(6), 3)
    ]
    assert sum(rate.value for rate in rates) / len(rates) == pytest.approx(2 / 6)
    answers = [True] * 20 + [False] * 80
    good = Stratum(size=1000, wrong=answers, expected=[0.99 * x for x in answers], mean_expected=0.2)
    poor = Stratum(size=1000, wrong=answers, expected=[0.2] * 100, mean_expected=0.2)
    width = [rate.high - rate.low for rate in map(difference_rate, ([good], [poor]))]
    assert width[0] < width[1] / 10
    assert difference_rate([stratum(2, [True, False])]).low == 0.5  # all labels were checked
    assert difference_rate([stratum(100, [None])]).value == 0.5
