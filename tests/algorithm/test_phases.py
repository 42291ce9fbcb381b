"""The clock: every moment of a run belongs to exactly one phase."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pencil.algorithm import LinearSchedule, Phase, PiecewiseSchedule, moment_at, three_phases, total_epochs

quick = settings(max_examples=50, deadline=None)
LENGTHS = st.tuples(*[st.integers(0, 40)] * 3)


def plan(lengths):
    return three_phases(
        *lengths, learning_rate=0.35, finetune_rate=PiecewiseSchedule((0.2, 0.02, 0.002), (40, 80))
    )


def test_the_papers_plan_of_70_130_and_120_epochs():
    phases = plan((70, 130, 120))
    names = [moment_at(phases, epoch).phase.name for epoch in range(320)]
    assert names == ["backbone"] * 70 + ["correction"] * 130 + ["finetune"] * 120
    assert total_epochs(phases) == 320
    rates = [moment_at(phases, epoch).learning_rate for epoch in range(320)]
    assert rates == [0.35] * 200 + [0.2] * 40 + [0.02] * 40 + [0.002] * 40


@quick
@given(lengths=LENGTHS, share=st.floats(0, 1, exclude_max=True))
def test_every_instant_falls_in_the_phase_that_covers_it(lengths, share):
    phases = plan(lengths)
    epoch = share * total_epochs(phases)
    if epoch >= total_epochs(phases):
        return
    moment = moment_at(phases, epoch)
    begun = sum(phase.epochs for phase in phases[: phases.index(moment.phase)])
    assert 0 <= moment.elapsed < moment.phase.epochs
    assert begun + moment.elapsed == pytest.approx(epoch)


@quick
@given(lengths=LENGTHS)
def test_each_phase_gets_the_epochs_it_asked_for_in_order(lengths):
    phases = plan(lengths)
    names = [moment_at(phases, epoch).phase.name for epoch in range(total_epochs(phases))]
    assert names == [phase.name for phase in phases for _ in range(phase.epochs)]


@quick
@given(lengths=st.tuples(*[st.integers(1, 40)] * 3), beyond=st.floats(0, 100))
def test_past_the_end_a_run_stands_at_its_end(lengths, beyond):
    phases = plan(lengths)
    moment = moment_at(phases, total_epochs(phases) + beyond)
    assert moment.phase is phases[-1]
    assert moment.elapsed == phases[-1].epochs


def test_schedules_restart_with_every_phase():
    phases = plan((2, 4, 2))
    values = [moment_at(phases, epoch).value(LinearSchedule(4.0)) for epoch in range(8)]
    assert values == [4, 2, 4, 3, 2, 1, 4, 2]


def test_a_schedule_moves_inside_an_epoch():
    assert moment_at(plan((2, 4, 2)), 2.5).value(LinearSchedule(4.0)) == 3.5


def test_negative_epochs_are_refused():
    with pytest.raises(ValueError, match=r"epochs.*-1"):
        Phase(name="correction", epochs=-1, learning_rate=0.1)


def test_a_phase_of_an_unknown_name_is_refused():
    with pytest.raises(
        ValueError, match="name: 'pencil' is unknown; use one of backbone, correction, finetune"
    ):
        Phase(name="pencil", epochs=1, learning_rate=0.1)


@pytest.mark.parametrize(
    ("lengths", "last"), [((1, 2, 0), "correction"), ((3, 0, 0), "backbone"), ((0, 0, 2), "finetune")]
)
def test_past_the_end_an_empty_last_phase_is_not_entered(lengths, last):
    moment = moment_at(plan(lengths), 3)
    assert (moment.phase.name, moment.elapsed) == (last, max(lengths))


def test_a_plan_without_an_epoch_has_no_moments():
    with pytest.raises(ValueError, match="phases: at least one phase needs an epoch"):
        moment_at(plan((0, 0, 0)), 0)
