"""Schedules: the paper's, bounded, continuous, and converted without loss."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pencil.algorithm import CosineSchedule, LinearSchedule, Pencil, PiecewiseSchedule, scaled, value_at

VALUES = st.floats(-1e4, 1e4)
quick = settings(max_examples=50, deadline=None)


def paper(lambda_, batch_size, num_classes):
    return Pencil.from_paper(
        lambda_=lambda_, alpha=0.1, beta=0.4, batch_size=batch_size, num_classes=num_classes, form="printed"
    ).label_rate


@pytest.mark.parametrize("start", [3000, 4000])
def test_table_1_lambda_falls_to_zero_in_a_straight_line(start):
    rate = paper(LinearSchedule(start, 0), 128, 10)
    for epoch in range(131):
        assert value_at(rate, epoch, 130) == pytest.approx(
            start * (1 - epoch / 130) / 1280, rel=1e-12, abs=1e-12
        )
    assert value_at(rate, 0, 130) == start / 1280
    assert value_at(rate, 130, 130) == 0


def test_clothing1m_lambda_is_3000_for_five_epochs_then_500():
    rate = paper(PiecewiseSchedule((3000, 500), (5,)), 32, 14)
    epochs = [value_at(rate, epoch, 10) for epoch in range(10)]
    assert epochs == [3000 / 448] * 5 + [500 / 448] * 5


def test_fine_tuning_divides_the_rate_by_ten_after_40_and_80_epochs():
    rate = PiecewiseSchedule((0.2, 0.02, 0.002), (40, 80))
    assert [value_at(rate, epoch, 120) for epoch in range(120)] == [0.2] * 40 + [0.02] * 40 + [0.002] * 40
    assert value_at(rate, 39.999, 120) == 0.2
    assert value_at(rate, 40.0, 120) == 0.02


@pytest.mark.parametrize(
    ("lambda_", "batch_size", "num_classes", "rate"),
    [
        (200, 128, 10, 0.15625),
        (1200, 128, 10, 0.9375),
        (600, 128, 10, 0.46875),
        (10_000, 128, 100, 0.78125),
        (1000, 16, 200, 0.3125),
        (3000, 16, 200, 0.9375),
    ],
)
def test_constant_lambdas_convert_exactly(lambda_, batch_size, num_classes, rate):
    assert paper(lambda_, batch_size, num_classes) == rate


@quick
@given(
    start=VALUES,
    end=VALUES,
    epochs=st.floats(0.1, 500),
    at=st.floats(-1, 2),
    kind=st.sampled_from([LinearSchedule, CosineSchedule]),
)
def test_linear_and_cosine_stay_between_their_ends(start, end, epochs, at, kind):
    value = kind(start, end).at(at * epochs, epochs)
    slack = 1e-12 * (abs(start) + abs(end))
    assert min(start, end) - slack <= value <= max(start, end) + slack


@quick
@given(
    start=VALUES,
    end=VALUES,
    epochs=st.integers(1, 500),
    kind=st.sampled_from([LinearSchedule, CosineSchedule]),
)
def test_linear_and_cosine_begin_and_end_where_they_say(start, end, epochs, kind):
    schedule = kind(start, end)
    assert schedule.at(0, epochs) == pytest.approx(start, rel=1e-12, abs=1e-9)
    assert schedule.at(epochs, epochs) == pytest.approx(end, rel=1e-12, abs=1e-9)
    assert schedule.at(epochs + 1, epochs) == schedule.at(epochs, epochs)


@quick
@given(
    start=VALUES,
    end=VALUES,
    at=st.floats(0, 1),
    step=st.floats(0, 1e-3),
    kind=st.sampled_from([LinearSchedule, CosineSchedule]),
)
def test_linear_and_cosine_have_no_jumps(start, end, at, step, kind):
    schedule = kind(start, end)
    change = abs(schedule.at(100 * (at + step), 100) - schedule.at(100 * at, 100))
    assert change <= abs(end - start) * step * math.pi / 2 + 1e-9


@quick
@given(
    start=VALUES,
    end=VALUES,
    first=st.floats(0, 1),
    second=st.floats(0, 1),
    kind=st.sampled_from([LinearSchedule, CosineSchedule]),
)
def test_linear_and_cosine_turn_nowhere(start, end, first, second, kind):
    early, late = (kind(start, end).at(at, 1) for at in sorted((first, second)))
    assert (late - early) * (end - start) >= -1e-6


@quick
@given(
    boundaries=st.lists(st.floats(0, 100), max_size=5, unique=True).map(sorted),
    elapsed=st.floats(0, 120),
    data=st.data(),
)
def test_piecewise_holds_each_value_from_its_boundary_on(boundaries, elapsed, data):
    size = len(boundaries) + 1
    values = data.draw(st.lists(VALUES, min_size=size, max_size=size))
    expected = values[0]
    for boundary, value in zip(boundaries, values[1:], strict=True):
        if elapsed >= boundary:
            expected = value
    assert value_at(PiecewiseSchedule(tuple(values), tuple(boundaries)), elapsed, 100) == expected


@pytest.mark.parametrize(
    ("values", "boundaries"),
    [
        ((1.0,), (5.0,)),
        ((1.0, 2.0), ()),
        ((), ()),
        ((1.0, 2.0, 3.0), (5.0, 5.0)),
        ((1.0, 2.0, 3.0), (6.0, 5.0)),
    ],
)
def test_piecewise_refuses_what_it_cannot_mean(values, boundaries):
    with pytest.raises(ValueError, match="piecewise schedule"):
        PiecewiseSchedule(values, boundaries)


SCHEDULES = st.one_of(
    VALUES,
    st.builds(LinearSchedule, VALUES, VALUES),
    st.builds(CosineSchedule, VALUES, VALUES),
    st.builds(lambda a, b: PiecewiseSchedule((a, b), (5.0,)), VALUES, VALUES),
)


@quick
@given(schedule=SCHEDULES, factor=st.floats(1e-4, 10), elapsed=st.floats(0, 12))
def test_scaling_commutes_with_reading(schedule, factor, elapsed):
    expected = factor * value_at(schedule, elapsed, 10)
    assert value_at(scaled(schedule, factor), elapsed, 10) == pytest.approx(expected, rel=1e-9, abs=1e-8)


def test_a_plain_number_is_constant():
    assert {value_at(3, elapsed, 10) for elapsed in (0, 5.5, 10, 99)} == {3.0}
    assert isinstance(value_at(3, 0, 10), float)


@pytest.mark.parametrize("schedule", [LinearSchedule(3.0, 1.0), CosineSchedule(3.0, 1.0)])
def test_a_phase_of_no_epochs_stands_at_the_end(schedule):
    assert value_at(schedule, 0, 0) == pytest.approx(1.0)
