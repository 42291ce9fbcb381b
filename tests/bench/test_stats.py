"""Statistics against tables and by hand."""

import math

import pytest

from pencil.bench.stats import Difference, Spread, student_quantile, student_share

TABLE = {  # Student's t, two-sided: degrees of freedom to (95 %, 99 %)
    1: (12.7062, 63.6567),
    2: (4.3027, 9.9248),
    3: (3.1824, 5.8409),
    4: (2.7764, 4.6041),
    9: (2.2622, 3.2498),
    10: (2.2281, 3.1693),
    30: (2.0423, 2.7500),
    120: (1.9799, 2.6174),
}


@pytest.mark.parametrize("degrees", TABLE)
def test_quantiles_are_those_of_the_printed_table(degrees):
    found = [student_quantile(confidence, degrees) for confidence in (0.95, 0.99)]
    assert found == pytest.approx(TABLE[degrees], abs=5e-5)


def test_shares_of_one_and_two_degrees_have_closed_forms():
    for t in (0.0, 0.3, 1.0, 7.5):
        assert student_share(t, 1) == pytest.approx(2 / math.pi * math.atan(t))
        assert student_share(t, 2) == pytest.approx(t / math.sqrt(2 + t * t))


def test_mean_and_deviation_by_hand():
    assert Spread.of([1.0, 2.0, 6.0]) == Spread(3.0, pytest.approx(math.sqrt(7)), 3)
    assert Spread.of([4.0]) == Spread(4.0, None, 1)


def test_a_paired_difference_by_hand():
    """d = 2, 4, 3, 3: mean 3, s² = 2/3, s / √4 = 0.40825, times t_3 = 3.18245 is 1.29923."""
    found = Difference.of([12.0, 24.0, 33.0, 43.0], [10.0, 20.0, 30.0, 40.0])
    assert found == Difference(3.0, pytest.approx(1.29923, abs=1e-5), 4)


def test_one_pair_has_no_interval_and_unequal_lists_no_difference():
    assert Difference.of([3.0], [1.0]) == Difference(2.0, None, 1)
    with pytest.raises(ValueError, match="zip"):
        Difference.of([1.0, 2.0], [1.0])
