"""Half precision by integers, against torch's own."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pencil.stores.half import from_half_bits, to_half_bits

LARGEST = torch.finfo(torch.float16).max


def test_every_finite_half_comes_back_exactly():
    bits = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).to(torch.int16)
    halves = bits.view(torch.float16)
    finite = torch.isfinite(halves)
    assert torch.equal(from_half_bits(bits)[finite], halves.float()[finite])
    assert torch.equal(to_half_bits(halves.float()[finite]), bits[finite])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(-LARGEST, LARGEST, width=32), min_size=1, max_size=20))
def test_values_are_rounded_as_torch_rounds_them_or_where_tiny_to_within_half_a_step(numbers):
    values = torch.tensor(numbers)
    usual = values.abs() >= 2.0**-14
    assert torch.equal(to_half_bits(values)[usual], values.half().view(torch.int16)[usual])
    error = (from_half_bits(to_half_bits(values)) - values).abs()
    assert bool((error[~usual] <= 2.0**-25).all())


def test_ties_go_to_the_even_neighbour():
    values = torch.tensor([1 + 2.0**-11, 1 + 3 * 2.0**-11, -(1 + 2.0**-11), 0.0, -0.0])
    assert torch.equal(to_half_bits(values), values.half().view(torch.int16))


def test_the_arguments_stay_as_they_are():
    values, bits = torch.tensor([1.5, -2.0]), torch.tensor([15872, -16384], dtype=torch.int16)
    to_half_bits(values)
    from_half_bits(bits)
    assert values.tolist() == [1.5, -2.0]
    assert bits.tolist() == [15872, -16384]
