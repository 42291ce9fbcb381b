"""Quick sums and exact looks agree on what is finite, but for finite values whose sum is not."""

import math

import pytest
import torch

from pencil.algorithm import TopRows
from pencil.engine.finite import entries, finite_rows, is_finite, sums_are_finite

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_one_value_among_many_is_found(value, dtype):
    values = torch.zeros(7, 3, dtype=dtype)
    assert sums_are_finite([values, values])
    values[4, 1] = value
    assert not sums_are_finite([torch.zeros(2), values])
    assert not is_finite(values)
    assert finite_rows(values).tolist() == [True] * 4 + [False] + [True] * 2


def test_infinities_that_cancel_are_found():
    assert not sums_are_finite([torch.tensor([math.inf]), torch.tensor([-math.inf])])


def test_a_sum_that_is_too_large_is_doubted_but_its_values_are_finite():
    values = torch.full((4,), 3e38)
    assert not sums_are_finite([values])
    assert is_finite(values)


def test_nothing_is_finite():
    assert sums_are_finite([])
    assert is_finite(torch.zeros(0, 3))


def test_cut_rows_are_looked_at_whole():
    rows = TopRows(torch.zeros(2, 1, dtype=torch.long), torch.zeros(2, 1), torch.full((2, 1), math.nan), 5)
    assert not sums_are_finite(entries(rows))
    assert sums_are_finite(entries(torch.zeros(2, 5)))
