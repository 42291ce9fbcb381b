"""Transition matrices: the paper's, counted ones, and which tables of numbers are none."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pencil.algorithm.transition import (
    CIFAR10_CLASSES,
    as_settings,
    cifar10_matrix,
    circular_matrix,
    counted_matrix,
    symmetric_matrix,
    wrong_row,
)
from pencil.errors import ConfigError

RATES = st.floats(0.0, 1.0)


@settings(deadline=None)  # a busy machine
@given(classes=st.integers(1, 40), rate=RATES)
def test_matrices_are_row_stochastic(classes, rate):
    for matrix in (symmetric_matrix(classes, rate), circular_matrix(classes, rate), cifar10_matrix(rate)):
        assert matrix.dtype is torch.float64
        assert (matrix >= 0).all()
        torch.testing.assert_close(matrix.sum(1), torch.ones(len(matrix), dtype=torch.float64))
        assert wrong_row(matrix) is wrong_row(as_settings(matrix)) is None


def test_symmetric_noise_draws_from_all_classes():
    matrix = symmetric_matrix(4, 0.4)
    assert matrix[0].tolist() == pytest.approx([0.7, 0.1, 0.1, 0.1])
    torch.testing.assert_close(symmetric_matrix(3, 1.0), torch.full((3, 3), 1 / 3, dtype=torch.float64))


def test_circular_noise_goes_to_the_next_class_and_round():
    expected = [[0.7, 0.3, 0.0], [0.0, 0.7, 0.3], [0.3, 0.0, 0.7]]
    torch.testing.assert_close(circular_matrix(3, 0.3), torch.tensor(expected, dtype=torch.float64))


def test_cifar10_map_is_exact():
    assert CIFAR10_CLASSES[9] == "truck"
    matrix = cifar10_matrix(0.3)
    moved = {9: 1, 2: 0, 4: 7, 3: 5, 5: 3}
    for row in range(10):
        expected = torch.zeros(10, dtype=torch.float64)
        expected[row] = 0.7 if row in moved else 1.0
        if row in moved:
            expected[moved[row]] = 0.3
        assert torch.equal(matrix[row], expected)


def test_a_counted_matrix_is_that_of_a_naive_loop_and_keeps_classes_without_examples():
    true, given = torch.tensor([0, 0, 0, 2, 2]), torch.tensor([0, 1, 1, 2, 0])
    pairs = list(zip(true.tolist(), given.tolist(), strict=True))
    for row in (0, 2):
        shares = [pairs.count((row, column)) / true.tolist().count(row) for column in range(3)]
        assert counted_matrix(true, given, 3)[row].tolist() == shares
    assert counted_matrix(true, given, 3)[1].tolist() == [0.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("rows", "wrong"),
    [
        (((1.0, 0.0), (0.3333, 0.6667)), None),
        (((1.0, 0.0), (0.3, 0.6)), 1),
        (((1.5, -0.5), (0.5, 0.5)), 0),
        (((1.0, 0.0), (math.nan, 1.0)), 1),
        (((1.0, 0.0),), 0),
        (((0.5, 0.5), (1.0,)), 1),
        ((), None),
    ],
)
def test_the_first_row_that_is_no_distribution_is_found(rows, wrong):
    assert wrong_row(rows) == wrong


def test_rates_and_sizes_that_cannot_be_are_refused():
    for wrong in (-0.1, 1.1, 40.0, math.nan):
        with pytest.raises(ConfigError, match="noise rate"):
            symmetric_matrix(3, wrong)
    with pytest.raises(ConfigError, match="num_classes = 0"):
        circular_matrix(0, 0.5)
