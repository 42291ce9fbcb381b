"""Random numbers as pure functions: splitmix64 to the bit, uniform, independent, without collisions."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pencil.data.randomness import mixed_seed, row_random


def reference_splitmix(seed, epoch, row, draws):
    """The same numbers in Python integers, as the reference generator writes them down."""
    mask = 2**64 - 1

    def output(state):
        state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & mask
        state = (state ^ (state >> 27)) * 0x94D049BB133111EB & mask
        return state ^ (state >> 31)

    gamma = 0x9E3779B97F4A7C15
    key = output((output((seed + gamma) & mask) + epoch + gamma) & mask)
    state = output((key + row) & mask)
    return [(output((state + (draw + 1) * gamma) & mask) >> 40) / 2**24 for draw in range(draws)]


def chi_square(numbers, bins):
    """Deviation of the counts from uniform, in standard deviations of the chi-square distribution."""
    counts = torch.histc(numbers.double(), bins=bins, min=0.0, max=1.0)
    expected = numbers.numel() / bins
    statistic = ((counts - expected) ** 2 / expected).sum().item()
    return (statistic - (bins - 1)) / (2 * (bins - 1)) ** 0.5


@given(
    seed=st.integers(-(2**70), 2**70),
    epoch=st.integers(0, 2**40),
    row=st.integers(0, 2**62),
)
def test_row_random_is_splitmix64(seed, epoch, row):
    numbers = row_random(seed, epoch, torch.tensor([row]), 4)
    assert numbers.shape == (1, 4)
    assert numbers.dtype is torch.float32
    assert numbers[0].tolist() == reference_splitmix(seed, epoch, row, 4)


def test_row_random_never_reaches_one_and_is_uniform():
    numbers = row_random(0, 0, torch.arange(250_000), 4)
    assert numbers.min() >= 0.0
    assert numbers.max() < 1.0
    for draw in range(4):
        assert abs(chi_square(numbers[:, draw], 100)) < 4
    ordered = numbers[:, 0].sort().values.double()
    gap = (ordered - (torch.arange(250_000) + 0.5) / 250_000).abs().max().item()
    assert gap < 1.95 / 250_000**0.5  # Kolmogorov-Smirnov at one in a thousand


@pytest.mark.parametrize(
    "other",
    [
        lambda rows: row_random(7, 3, rows, 2)[:, 1],  # another draw
        lambda rows: row_random(7, 4, rows, 1)[:, 0],  # another epoch
        lambda rows: row_random(8, 3, rows, 1)[:, 0],  # another seed
        lambda rows: row_random(7, 3, rows + 1, 1)[:, 0],  # another row
        lambda rows: row_random(3, 7, rows, 1)[:, 0],  # seed and epoch exchanged
        lambda rows: row_random(7, 3, rows + 2**32, 1)[:, 0],  # far rows
    ],
)
def test_row_random_is_independent_across_draws_epochs_seeds_and_rows(other):
    rows = torch.arange(100_000)
    first, second = row_random(7, 3, rows, 1)[:, 0].double(), other(rows).double()
    assert abs(torch.corrcoef(torch.stack((first, second)))[0, 1].item()) < 4 / 100_000**0.5
    cells = (first * 10).floor() * 10 + (second * 10).floor()  # their joint distribution, too, is uniform
    assert abs(chi_square((cells + 0.5) / 100, 100)) < 4


def test_row_random_along_epochs_of_one_row_is_uniform():
    numbers = torch.cat([row_random(1, epoch, torch.tensor([5]), 1)[0] for epoch in range(4000)])
    assert abs(chi_square(numbers, 20)) < 4


def test_row_random_does_not_depend_on_the_batch():
    rows = torch.randperm(1000)
    whole = row_random(3, 9, rows, 3)
    assert torch.equal(whole[500:], row_random(3, 9, rows[500:], 3))
    assert torch.equal(whole[rows.argsort()], row_random(3, 9, torch.arange(1000), 3))
    assert torch.equal(whole[:, :2], row_random(3, 9, rows, 2))


@pytest.mark.parametrize(("one", "other"), [((0, 1), (1, 0)), ((0,), (0, 0)), ((1, 2, 3), (3, 2, 1))])
def test_mixed_seeds_tell_order_and_number_apart(one, other):
    assert mixed_seed(*one) != mixed_seed(*other)


@settings(max_examples=60, deadline=None)
@given(parts=st.lists(st.integers(-(2**70), 2**70), max_size=4))
def test_a_mixed_seed_is_one_a_generator_takes(parts):
    torch.Generator().manual_seed(mixed_seed(*parts))
    assert 0 <= mixed_seed(*parts) < 2**63


def test_no_two_of_many_epochs_and_ranks_share_a_seed():
    seeds = {mixed_seed(seed, epoch, rank) for seed in range(60) for epoch in range(330) for rank in range(8)}
    assert len(seeds) == 60 * 330 * 8


def test_seeds_of_neighbours_share_no_pattern():
    """Each bit is set in half of them, whichever number counts up."""
    for seeds in (
        [mixed_seed(7, count) for count in range(4096)],
        [mixed_seed(count, 7) for count in range(4096)],
    ):
        set_bits = [sum(seed >> bit & 1 for seed in seeds) for bit in range(63)]
        assert max(abs(count - 2048) for count in set_bits) < 5 * 32
