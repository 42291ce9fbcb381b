"""Ownership: one row, one owner; equal stretches of one order, over which class-sorted rows spread evenly."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pencil.data.order import indices_at, owned_indices, span, stride

quick = settings(max_examples=60, deadline=None)
NUM_ROWS = st.integers(0, 4000)
WORLD_SIZES = st.integers(1, 64)
USUAL_SIZES = [45_000, 50_000, 60_000, 73_257, 100_000, 247_990, 510_510, 2**20]


def farthest_from_even(num_rows, classes):
    """Over every stretch of positions and each of the equal blocks of rows: how many rows off an even share."""
    order = owned_indices(num_rows)
    worst = 0.0
    for block in range(classes):
        members = span(num_rows, block, classes)
        inside = ((order >= members.start) & (order < members.stop)).double()
        ahead = (inside - len(members) / num_rows).cumsum(0)  # of an even share, at every position
        ahead = torch.cat([torch.zeros(1, dtype=torch.float64), ahead])
        worst = max(worst, float(ahead.max() - ahead.min()))  # the stretch between these two
    return worst


@quick
@given(num_rows=NUM_ROWS, world_size=WORLD_SIZES)
def test_spans_follow_one_another_and_are_equal_to_within_one(num_rows, world_size):
    spans = [span(num_rows, rank, world_size) for rank in range(world_size)]
    assert [position for each in spans for position in each] == list(range(num_rows))
    assert max(map(len, spans)) - min(map(len, spans)) <= 1


@quick
@given(num_rows=NUM_ROWS, world_size=WORLD_SIZES)
def test_every_row_has_exactly_one_owner(num_rows, world_size):
    parts = [owned_indices(num_rows, rank, world_size) for rank in range(world_size)]
    assert sorted(torch.cat(parts).tolist()) == list(range(num_rows))


@quick
@given(num_rows=NUM_ROWS, world_size=WORLD_SIZES)
def test_the_order_of_rows_is_the_same_for_any_number_of_ranks(num_rows, world_size):
    parts = [owned_indices(num_rows, rank, world_size) for rank in range(world_size)]
    assert torch.equal(torch.cat(parts), owned_indices(num_rows))
    assert torch.equal(owned_indices(num_rows), indices_at(num_rows, torch.arange(num_rows)))


def test_a_stride_meets_every_row_of_every_number_of_rows():
    for num_rows in range(1, 3000):
        assert 1 <= stride(num_rows) <= max(num_rows - 1, 1)
        assert math.gcd(stride(num_rows), num_rows) == 1


@pytest.mark.parametrize(
    "num_rows", [math.prod((2, 3, 5, 7, 11, 13, 17, 19, 23, 29)[:k]) for k in range(1, 11)]
)
def test_numbers_with_many_factors_have_a_stride_too(num_rows):
    assert math.gcd(stride(num_rows), num_rows) == 1
    assert abs(stride(num_rows) - num_rows * (math.sqrt(5) - 1) / 2) <= 65


@quick
@given(num_rows=st.integers(1, 4000), classes=st.sampled_from([2, 3, 10, 100]))
def test_every_stretch_of_positions_holds_class_blocks_evenly(num_rows, classes):
    assert farthest_from_even(num_rows, classes) <= 6


@pytest.mark.parametrize("num_rows", [2365, 3116, 3268, 4984])
def test_no_number_of_rows_makes_the_order_circle_in_place(num_rows):
    """The whole steps nearest to the golden fraction of these are up to 40 rows off."""
    assert farthest_from_even(num_rows, 2) <= 6


@pytest.mark.parametrize("num_rows", USUAL_SIZES)
def test_class_sorted_data_sets_of_usual_sizes_spread_evenly(num_rows):
    assert farthest_from_even(num_rows, 10) <= 8


def test_numbers_of_rows_beyond_32_bits_do_not_overflow():
    num_rows = 2_900_000_000
    last = span(num_rows, num_rows - 1, num_rows)
    row = indices_at(num_rows, torch.tensor([last.start]))
    assert row.tolist() == [last.start * stride(num_rows) % num_rows]
