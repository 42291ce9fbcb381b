"""The draw: uniform, repeatable, extended without changing what was drawn."""

from collections import Counter
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pencil.audit.draw import REPEAT_GAP, drawn, looks, shares, shuffled


@given(st.integers(0, 2**32), st.integers(1, 60), st.data())
def test_a_larger_draw_begins_with_the_smaller_one(seed, size, data):
    count = data.draw(st.integers(0, size))
    whole = drawn(seed, "relabel", size, size)
    assert sorted(whole) == list(range(size))
    assert drawn(seed, "relabel", size, count) == whole[:count]


def test_every_order_is_drawn_about_equally_often():
    counts = Counter(tuple(drawn(seed, "x", 4, 3)) for seed in range(2400))
    assert len(counts) == 24
    statistic = sum((count - 100) ** 2 / 100 for count in counts.values())
    assert statistic < 44.2  # 99.5 % point of chi-squared with 23 degrees of freedom; the seeds are fixed
    mixed = Counter(tuple(shuffled("abc", seed)) for seed in range(600))
    assert set(mixed) == set(permutations("abc"))
    assert max(mixed.values()) < 140


def test_the_same_seed_draws_the_same_places_everywhere():
    assert drawn(7, "relabel", 1751, 5) == [355, 126, 1734, 475, 802]


@given(st.integers(0, 99), st.integers(0, 60), st.integers(0, 40))
def test_looks_are_the_draw_with_repeats(seed, first, more):
    sizes = {"keep": 70, "relabel": 30}
    draws = [shares(sizes, first), shares(sizes, first + more)]
    found = looks(seed, sizes, draws)
    assert [look.number for look in found] == list(range(1, len(found) + 1))
    assert found[: len(looks(seed, sizes, draws[:1]))] == looks(seed, sizes, draws[:1])
    for name, count in draws[1].items():
        new = [look.place for look in found if look.stratum == name and look.again is None]
        assert new == drawn(seed, name, sizes[name], count)
    again = [look for look in found if look.again is not None]
    assert len(again) == (first + more) // 10
    assert len({look.again for look in again}) == len(again)
    for look in again:
        assert look[1:3] == found[look.again - 1][1:3]
        between = [each for each in found[look.again : look.number - 1] if each.again is None]
        assert len(between) >= REPEAT_GAP


@pytest.mark.parametrize(
    ("sizes", "count", "divided"),
    [
        ({"relabel": 50}, 20, {"relabel": 20}),
        ({"relabel": 5}, 20, {"relabel": 5}),
        ({"keep": 800, "relabel": 150, "review": 50}, 100, {"keep": 78, "relabel": 12, "review": 10}),
        ({"keep": 990, "relabel": 0, "review": 10}, 100, {"keep": 90, "relabel": 0, "review": 10}),
        ({"keep": 996, "relabel": 1, "review": 3}, 100, {"keep": 96, "relabel": 1, "review": 3}),
    ],
)
def test_samples_are_divided_by_size(sizes, count, divided):
    assert shares(sizes, count) == divided


@given(st.lists(st.integers(0, 50), min_size=3, max_size=3), st.integers(0, 200))
def test_shares_never_exceed_the_sample_or_the_labels(sizes, count):
    named = dict(zip("abc", sizes, strict=True))
    if not sum(sizes):
        return
    divided = shares(named, count)
    assert sum(divided.values()) == min(count, sum(sizes))
    assert all(0 <= divided[name] <= named[name] for name in named)
