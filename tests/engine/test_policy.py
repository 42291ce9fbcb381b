"""What a policy decides is done, bit for bit as if it had been the plan, and survives a kill at any moment."""

import shutil
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pencil.algorithm import Phase, moment_at, three_phases, total_epochs
from pencil.engine import (
    Checkpoints,
    Continue,
    Events,
    Loop,
    NextPhase,
    Restore,
    Runtime,
    Stop,
    ended,
    phase_ended,
    read_json_lines,
    read_metrics,
)
from pencil.errors import RunError
from support.moments import AtOnce, Disk, assert_same, end_state, without_times

pytestmark = pytest.mark.slow

RATE, LOWER = 0.02, 0.003
DROPOUT = {"model": "mlp", "args": {"hidden": (16,), "dropout": 0.5}}
STEPS = 2  # in an epoch of 600 rows


class Script:
    """Decides by the number of epochs trained so far, undone ones included, and remembers what it was given."""

    def __init__(self, decisions):
        self.decisions, self.given = decisions, []

    def decide(self, end):
        self.given.append(end)
        return self.decisions.get(len(end.history) + 1, Continue())


def plan(*epochs, rate=RATE):
    return three_phases(*epochs, learning_rate=rate, finetune_rate=rate)


def lower(*epochs):
    """The plan whose first phase is as ever, and whose others have a lower rate."""
    return tuple(
        replace(phase, learning_rate=LOWER if number else RATE) for number, phase in enumerate(plan(*epochs))
    )


@pytest.fixture(scope="module")
def start(blobs, make_training):
    """A training with dropout, whose random state counts too."""

    def begin(folder, decisions=None, **options):
        options = {"batch_size": 300, "epochs": (1, 2, 1), **DROPOUT, **options}
        policy = None if decisions is None else Script(decisions)
        return make_training(blobs, folder, policy=policy, **options)

    return begin


@pytest.fixture(scope="module")
def finished(start, carry_on, tmp_path_factory):
    """A run to its end: its training, state and folder."""

    def run(decisions=None, phases=None, **options):
        folder = tmp_path_factory.mktemp("run")
        training = start(folder, decisions, **options)
        training.learner.phases = phases or training.learner.phases
        assert carry_on(training, folder / "metrics.jsonl")[1]
        return training, end_state(training), folder

    return run


def told(folder, *but):
    """The epochs that led to the result, without what runs that end alike may differ in."""
    lines = read_metrics(folder / "metrics.jsonl")
    left_out = {"seconds", "forward_passes", "step", "decision", "restored", *but}
    return [{name: value for name, value in line.items() if name not in left_out} for line in lines]


@pytest.mark.parametrize(
    ("epochs", "phase", "cut"),
    [
        (1, (1, 4, 2), (1, 0, 0)),
        (2, (2, 4, 2), (2, 0, 0)),
        (3, (2, 1, 2), (2, 1, 0)),
        (6, (2, 4, 2), (2, 4, 0)),
        (8, (2, 4, 2), (2, 4, 2)),
    ],
)
def test_a_phase_or_a_plan_ends_where_it_is_told_to(epochs, phase, cut):
    assert [each.epochs for each in phase_ended(plan(2, 4, 2), epochs)] == list(phase)
    assert [each.epochs for each in ended(plan(2, 4, 2), epochs)] == list(cut)


@given(lengths=st.lists(st.integers(0, 4), min_size=1, max_size=5), data=st.data())
def test_an_ended_phase_leaves_the_next_to_come_from_its_beginning(lengths, data):
    names = ["backbone", "correction", "finetune", "correction", "finetune"]
    phases = [
        Phase(name=name, epochs=epochs, learning_rate=number)
        for number, (name, epochs) in enumerate(zip(names, lengths, strict=False))
    ]
    if not total_epochs(phases):
        return
    epochs = data.draw(st.integers(1, total_epochs(phases)))
    changed = phase_ended(phases, epochs)
    now = moment_at(phases, epochs - 1)
    assert moment_at(changed, epochs - 1).phase.learning_rate == now.phase.learning_rate
    after = [phase for phase in phases[int(now.phase.learning_rate) + 1 :] if phase.epochs]
    assert total_epochs(changed) == epochs + total_epochs(after)
    if after:
        following = moment_at(changed, epochs)
        assert (following.phase, following.elapsed) == (after[0], 0)
    assert total_epochs(ended(phases, epochs)) == epochs


def test_a_policy_that_only_continues_changes_nothing(finished):
    _, plain, folder = finished()
    training, state, same = finished({})
    assert_same(plain, state)
    assert told(folder) == told(same)
    given = training.policy.given
    assert [end.metrics["epoch"] for end in given] == [1, 2, 3, 4]
    assert [past.metrics for past in given[-1].history] == [end.metrics for end in given[:-1]]
    lines = read_json_lines(same / "metrics.jsonl")
    assert [end.metrics for end in given] == [
        {key: value for key, value in line.items() if key != "step"} for line in lines
    ]
    assert [path.name for path in (same / "checkpoints").iterdir()] == ["step-0000000008"]


def test_without_a_policy_a_checkpoint_holds_nothing_of_it(start, tmp_path):
    training = start(tmp_path)
    progress = Loop(training).progress.to_json(600, training.runtime)
    assert set(progress) == {"step", "num_rows", "world_size", "earlier", "changed", "tally", "seconds"}


@pytest.mark.parametrize(
    ("decisions", "as_planned"),
    [
        ({1: Stop()}, (1, 0, 0)),
        ({2: Stop()}, (1, 1, 0)),
        ({4: Stop()}, (1, 2, 1)),
        ({2: NextPhase()}, (1, 1, 1)),
        ({1: NextPhase()}, (1, 2, 1)),
        ({2: NextPhase(), 3: NextPhase()}, (1, 1, 1)),
        ({1: NextPhase(), 3: Stop(keep="last")}, (1, 2, 0)),
    ],
)
def test_a_run_that_is_cut_short_is_the_run_of_the_shorter_plan(finished, decisions, as_planned):
    """Also in what is measured: the last epoch always is."""
    _, planned, folder = finished(phases=plan(*as_planned), evaluate_every=3)
    training, state, same = finished(decisions, evaluate_every=3)
    assert_same(planned, state)
    assert told(folder) == told(same)
    words = {number: decision.word for number, decision in decisions.items()}
    lines = read_json_lines(same / "metrics.jsonl")
    assert {line["epoch"]: line["decision"] for line in lines if "decision" in line} == words
    assert total_epochs(training.learner.phases) == sum(as_planned)


def test_a_restored_run_is_the_run_of_the_changed_plan(finished):
    """The first epoch is alike in both plans; its order of rows comes again, and so does the random state."""
    changed = lower(1, 2, 1)
    _, planned, folder = finished(phases=changed)
    training, state, same = finished({1: Continue(keep="start"), 3: Restore("start", changed)})
    assert_same(planned, state)
    assert told(folder) == told(same)
    epochs = [end.metrics["epoch"] for end in training.policy.given]
    assert epochs == [1, 2, 3, 2, 3, 4]
    last = training.policy.given[-1]
    assert last.kept == {"start": 1}
    assert last.phases == changed
    assert [past.decision for past in last.history][:3] == [
        Continue(keep="start"),
        Continue(),
        Restore("start", changed),
    ]


def test_a_run_may_continue_under_a_longer_plan(finished):
    """A second round, added when the first one ends, is the plan of two rounds."""
    twice = (*plan(1, 2, 1), *lower(0, 1, 1)[1:])
    _, planned, folder = finished(phases=twice)
    training, state, same = finished({4: Continue(phases=twice, reason="it helped")})
    assert_same(planned, state)
    assert told(folder) == told(same, "reason")
    assert [end.metrics["epoch"] for end in training.policy.given] == [1, 2, 3, 4, 5, 6]
    lines = read_json_lines(same / "metrics.jsonl")
    assert [(line.get("decision"), line.get("reason")) for line in lines][3:5] == [
        ("continue", "it helped"),
        (None, None),
    ]


@pytest.mark.parametrize("phases", [plan(1, 0, 0), plan(0, 2, 1), plan(2, 1, 1)])
def test_a_plan_that_differs_in_epochs_done_is_refused(start, carry_on, tmp_path, phases):
    training = start(tmp_path, {2: Continue(phases=phases)})
    with pytest.raises(RunError, match="differs in the 2 epochs done"):
        carry_on(training, tmp_path / "metrics.jsonl")


def test_the_metrics_of_a_restored_run_keep_what_was_undone_and_what_it_cost(finished):
    _, _, folder = finished({1: Continue(keep="start"), 3: Restore("start", lower(1, 2, 1))})
    lines = read_json_lines(folder / "metrics.jsonl")
    assert [(line["step"], line["epoch"], line.get("restored")) for line in lines] == [
        (2, 1, None),
        (4, 2, None),
        (6, 3, None),
        (6, 1, "start"),
        (8, 2, None),
        (10, 3, None),
        (12, 4, None),
    ]
    assert {**lines[3], "step": 2} == {**lines[0], "restored": "start"}
    trained = [line for line in lines if "restored" not in line]
    for cost in ("seconds", "forward_passes"):
        spent = sum(line[cost] for line in read_metrics(folder / "metrics.jsonl"))
        assert spent == pytest.approx(sum(line[cost] for line in trained))


def test_a_run_can_end_with_the_best_epoch_instead_of_the_last(finished):
    best = {2: Continue(keep="best"), 4: Restore("best", ended(plan(1, 2, 1), 2))}
    _, planned, folder = finished(phases=plan(1, 1, 0), evaluate_every=3)
    training, state, same = finished(best, evaluate_every=3)
    assert_same(planned, state)
    assert told(folder) == told(same)
    assert "test_accuracy" in read_metrics(same / "metrics.jsonl")[-1]
    assert len(training.policy.given) == 4


def test_restoring_again_starts_from_whatever_has_the_name_now(finished):
    """Epoch 2 of the second try takes the name, and the third continues from there under the first plan."""
    decisions = {
        1: Continue(keep="here"),
        2: Restore("here", lower(1, 2, 1)),
        3: Continue(keep="here"),
        4: Restore("here", plan(1, 1, 1)),
    }
    mixed = (
        Phase(name="backbone", epochs=1, learning_rate=RATE),
        Phase(name="correction", epochs=1, learning_rate=LOWER),
        Phase(name="finetune", epochs=1, learning_rate=RATE),
    )
    _, planned, _ = finished(phases=mixed)
    training, state, _ = finished(decisions)
    assert_same(planned, state)
    assert [end.metrics["epoch"] for end in training.policy.given] == [1, 2, 2, 3, 3]


def test_named_checkpoints_stay_until_they_are_released(start, carry_on, tmp_path):
    seen = {}

    class Look:
        def handle(self, event):
            names = sorted(path.name[5:] for path in (tmp_path / "checkpoints").glob("step-*"))
            if event.kind == "step":
                seen[event.step] = [int(name) for name in names]

        def close(self):
            pass

    decisions = {1: Continue(keep="a"), 2: Continue(keep="b"), 3: Continue(release=("a", "none"))}
    training = start(tmp_path, decisions, epochs=(1, 4, 1), keep=1, checkpoint_steps=1)
    training.checkpoints = AtOnce(tmp_path / "checkpoints", training.runtime, 1)
    carry_on(training, tmp_path / "metrics.jsonl", [Look()])
    assert seen[3] == [2, 3]
    assert seen[5] == [2, 4, 5]
    assert seen[7] == [4, 7]
    assert [end.kept for end in training.policy.given][2:4] == [{"a": 1, "b": 2}, {"b": 2}]


def test_a_checkpoint_that_an_older_one_needs_stays_as_long_as_that(tmp_path):
    """The older one may be all that is left after the newest was damaged."""
    checkpoints = Checkpoints(tmp_path, Runtime(device=torch.device("cpu")), keep=2)
    for step, needs in ((1, [1]), (2, [1]), (3, [3]), (4, [3]), (5, []), (6, [])):
        checkpoints.save(step, {"value": torch.ones(1)}, needs=needs)
        found = sorted(int(path.name[5:]) for path in tmp_path.glob("step-*"))
        assert found == {1: [1], 2: [1, 2], 3: [1, 2, 3], 4: [3, 4], 5: [3, 4, 5], 6: [5, 6]}[step]


class Kill:
    """Ends a run in its second epoch."""

    def handle(self, event):
        if event.kind == "step" and event.step == 3:
            raise KeyboardInterrupt

    def close(self):
        pass


EVERYTHING = {
    1: Continue(keep="start"),
    2: NextPhase(keep="middle"),
    3: Restore("start", lower(1, 2, 2)),
    4: Continue(keep="start", release=("middle",)),
    6: Restore("start", plan(1, 2, 2)),
    7: NextPhase(),
    8: Continue(phases=(*plan(1, 2, 2), *plan(0, 1, 1)[1:]), reason="once more"),
    10: Stop(reason="enough"),
}


@pytest.fixture(scope="module")
def moments(start, carry_on, tmp_path_factory):
    """A run with every decision, and copies of its folder at every moment."""
    folder, copies = tmp_path_factory.mktemp("whole"), tmp_path_factory.mktemp("copies")
    disk = Disk(folder, copies)
    training = start(folder, EVERYTHING, checkpoint_steps=3)
    training.checkpoints = AtOnce(folder / "checkpoints", training.runtime, 2)
    with pytest.MonkeyPatch.context() as patch:
        disk.watch(patch)
        assert carry_on(training, folder / "metrics.jsonl", [disk])[1]
    return training, end_state(training), folder, sorted(copies.iterdir())


def test_all_decisions_together_are_the_plan_they_lead_to(moments, finished):
    _, state, folder, copies = moments
    chosen = (
        Phase(name="backbone", epochs=1, learning_rate=RATE),
        Phase(name="correction", epochs=1, learning_rate=LOWER),
        Phase(name="correction", epochs=1, learning_rate=RATE),
        Phase(name="finetune", epochs=2, learning_rate=RATE),
        Phase(name="correction", epochs=1, learning_rate=RATE),
    )
    _, planned, same = finished(phases=chosen)
    assert_same(planned, state)
    assert told(folder, "reason") == told(same)
    assert len(copies) > 30


def test_a_run_killed_at_any_moment_around_any_decision_ends_the_same(moments, start, carry_on):
    _, state, folder, copies = moments
    expected = without_times(folder)
    for copy in copies:
        resumed = start(copy, EVERYTHING, checkpoint_steps=3)
        assert carry_on(resumed, copy / "metrics.jsonl")[1], copy.name
        assert_same(state, end_state(resumed))
        assert without_times(copy) == expected, copy.name


def test_a_run_from_before_policies_goes_on_with_one(start, carry_on, finished, tmp_path):
    _, planned, _ = finished(phases=plan(1, 1, 1))

    with pytest.raises(KeyboardInterrupt):
        carry_on(start(tmp_path, checkpoint_steps=1), tmp_path / "metrics.jsonl", [Kill()])
    resumed = start(tmp_path, {1: NextPhase()})
    assert carry_on(resumed, tmp_path / "metrics.jsonl")[1]
    assert_same(planned, end_state(resumed))


def test_a_run_that_began_with_a_policy_needs_it_until_its_plan_is_done(start, carry_on, moments, tmp_path):
    _, state, folder, _ = moments
    over = start(shutil.copytree(folder, tmp_path / "over"))
    assert carry_on(over, tmp_path / "over" / "metrics.jsonl")[1]
    assert_same(state, end_state(over))
    with pytest.raises(KeyboardInterrupt):
        carry_on(start(tmp_path, {}, checkpoint_steps=1), tmp_path / "metrics.jsonl", [Kill()])
    with pytest.raises(RunError, match="this run began with a policy; resume it with the same one"):
        Loop(start(tmp_path)).resume()


@pytest.mark.parametrize(
    ("decision", "message"),
    [
        (None, r"the policy returned None; return Continue\(\), Stop\(\), NextPhase\(\) or Restore"),
        (Restore("best", plan(1, 2, 1)), "restores checkpoint 'best', but those kept are: start; keep it"),
        (Restore("start", plan(0, 0, 0)), "of epoch 1 under a plan of 0 epochs; give the whole plan"),
    ],
)
def test_decisions_that_cannot_be_are_refused(start, carry_on, tmp_path, decision, message):
    training = start(tmp_path, {1: Continue(keep="start"), 2: decision})
    with pytest.raises(RunError, match=message):
        carry_on(training, tmp_path / "metrics.jsonl")


@pytest.mark.parametrize("decision", [Continue(keep="best"), Restore("best", plan(1, 2, 1))])
def test_names_need_a_place_for_checkpoints(start, decision):
    training = start(None, {1: decision})
    training.events = Events()
    with pytest.raises(RunError, match="this run takes none; give it a folder"):
        Loop(training).run()


def test_without_checkpoints_a_policy_may_still_stop_a_run(start, finished):
    _, planned, _ = finished(phases=plan(1, 0, 0))
    training = start(None, {1: Stop()})
    assert Loop(training).run()
    assert_same(planned, end_state(training))


def test_a_policy_that_restores_for_ever_is_stopped(start, carry_on, tmp_path, monkeypatch):
    monkeypatch.setattr("pencil.engine.course.MOST_RESTORES", 3)
    again = Restore("start", plan(1, 2, 1))
    training = start(tmp_path, {1: Continue(keep="start"), **dict.fromkeys(range(2, 99), again)})
    with pytest.raises(RunError, match="has restored 3 times; let it stop"):
        carry_on(training, tmp_path / "metrics.jsonl")
