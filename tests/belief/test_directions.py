"""Whitened directions: finite, of length 1, and the same for rows that they were not fitted to."""

import math

import pytest
import torch

from pencil.belief.directions import Directions, directions


def normal(rows, width, seed=0):
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed))


def constant_columns(x):
    return torch.cat([x, torch.full((len(x), 2), 7.3), torch.zeros(len(x), 1)], 1)


def with_nan(x):
    x = x.clone()
    x[::7, 2], x[3] = math.nan, math.nan
    x[5, 1], x[6, 1] = math.inf, -math.inf
    return x


def far_away(x):
    return x + 3e4


def of_many_scales(x):
    return x * torch.logspace(-6, 6, x.shape[1])


@pytest.mark.parametrize("clipped", [False, True])
@pytest.mark.parametrize("change", [constant_columns, with_nan, far_away, of_many_scales])
def test_directions_are_finite_and_have_length_1(change, clipped):
    axes, lengths = directions(change(normal(300, 6)), clipped=clipped)
    assert bool(axes.isfinite().all())
    assert bool(lengths.isfinite().all())
    torch.testing.assert_close(axes.norm(dim=1), torch.ones(300), rtol=0, atol=1e-4)
    assert lengths.shape == (300, 1)
    assert float(lengths.median()) == pytest.approx(1, rel=1e-4)


@pytest.mark.parametrize("clipped", [False, True])
def test_constant_columns_and_a_large_offset_change_nothing(clipped):
    x = normal(300, 6)
    axes, lengths = directions(x, clipped=clipped)
    more = directions(constant_columns(x), clipped=clipped)
    torch.testing.assert_close(more[0] @ more[0].T, axes @ axes.T, rtol=0, atol=1e-3)
    torch.testing.assert_close(more[1], lengths, rtol=1e-3, atol=1e-3)
    far = directions(x + 3e4, clipped=clipped)  # a float32 keeps 0.002 of these
    torch.testing.assert_close(far[0] @ far[0].T, axes @ axes.T, rtol=0, atol=0.02)


@pytest.mark.parametrize("clipped", [False, True])
@pytest.mark.parametrize("value", [0.0, 1.0, 3.3])
def test_features_that_are_all_constant_have_one_direction_for_all_rows(value, clipped):
    axes, lengths = directions(torch.full((30, 4), value), clipped=clipped)
    assert bool(axes.isfinite().all())
    assert bool(lengths.isfinite().all())
    assert len(axes) == len(lengths) == 30
    assert bool((axes == axes[0]).all())


@pytest.mark.parametrize("size", [1e-6, 1e6])
def test_plain_directions_do_not_depend_on_a_common_scale(size):
    x = normal(300, 6)
    for found, expected in zip(
        directions(size * x, clipped=False), directions(x, clipped=False), strict=True
    ):
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)


def test_clipped_directions_do_not_depend_on_the_scale_of_each_feature():
    x = normal(300, 6)
    scaled = x * torch.logspace(-3, 3, 6)
    for found, expected in zip(directions(scaled, clipped=True), directions(x, clipped=True), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
    assert not torch.allclose(directions(scaled, clipped=False)[0], directions(x, clipped=False)[0], atol=0.1)


def test_clipped_features_equal_a_loop():
    x = normal(301, 5)
    x[:, 3] = (torch.arange(301) % 10 == 0) * 9.0  # the quartile range is 0
    x[7, 1] = 1e5
    spread = (x - x.mean(0)).square().mean(0).sqrt()
    map_ = Directions.of(x, clipped=True)
    found = map_._plain((x - map_.mean).float())
    for column in range(5):
        values = sorted(x[:, column].tolist())
        quartile = (values[225] - values[75]) / 1.349
        scale = quartile if quartile > 0.2 * float(spread[column]) else float(spread[column])
        if column == 1:  # one far value makes the standard deviation large, so it is used
            assert scale == float(spread[column])
        expected = [min(max((value - values[150]) / scale, -5), 5) for value in x[:, column].tolist()]
        torch.testing.assert_close(found[:, column], torch.tensor(expected), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("clipped", [False, True])
@pytest.mark.parametrize("change", [constant_columns, with_nan, far_away, of_many_scales])
def test_some_rows_have_the_directions_that_they_have_among_all(change, clipped):
    x = change(normal(300, 6))
    map_ = Directions.of(x, clipped=clipped)
    for found, expected in zip(map_(x[40:70]), map_(x), strict=True):
        torch.testing.assert_close(found, expected[40:70], rtol=1e-5, atol=1e-5)


def test_a_few_far_values_decide_clipped_directions_less():
    x = normal(300, 6)
    far = x.clone()
    far[:3, 0] = 20.0

    def change(clipped):
        one, other = (directions(each, clipped=clipped)[0][3:] for each in (x, far))
        return float((one @ one.T - other @ other.T).abs().mean())

    assert change(True) < 0.5 * change(False)
