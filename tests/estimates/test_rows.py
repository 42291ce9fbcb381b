"""The sample of rows that estimates are fitted on."""

import torch
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from pencil.estimates.rows import is_sampled


@settings(max_examples=50, deadline=None)
@drawn(st.integers(1, 60), st.integers(2, 120))
def test_classes_in_turn_are_sampled_alike(stride, classes):
    places = torch.arange(400 * stride * classes)
    chosen = is_sampled(places, stride)
    counts = (places[chosen] % classes).bincount(minlength=classes)
    assert counts.min() > 200  # 400 of each are expected
    assert counts.max() < 600
    assert stride > 1 or chosen.all()


def test_a_row_is_chosen_by_its_place_alone():
    places = torch.randperm(5000)
    torch.testing.assert_close(is_sampled(places, 7), is_sampled(torch.arange(5000), 7)[places])
