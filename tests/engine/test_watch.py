"""Alarms in real trainings: each is provoked, ends correction with the best labels, and survives a kill.

A run that an alarm has ended early is compared, bit for bit, with the plain run of the plan that it leads to.
"""

from dataclasses import replace

import pytest
import torch

from pencil.algorithm import Pencil, Phase
from pencil.engine import AlarmActions, Continue, EpochEnd, Past, Restore, Stop, read_json_lines, read_metrics
from pencil.engine.policy import correction_ended
from pencil.engine.watch import BEST, Watch, _naming, without_alarms
from pencil.errors import AlarmError, NotFiniteError
from support.moments import AtOnce, Disk, assert_same, end_state, without_times
from support.training import make_blobs

pytestmark = pytest.mark.slow

REPORT = AlarmActions(collapse="report", drift="report")
FORCE = Pencil(label_rate=50.0, pull=0.0, entropy_weight=20.0)


def plan(backbone, correction, finetune, rate=0.02, correction_rate=None):
    rates = (rate, correction_rate or rate, rate)
    names = ("backbone", "correction", "finetune")
    return tuple(
        Phase(name=name, epochs=epochs, learning_rate=each)
        for name, epochs, each in zip(names, (backbone, correction, finetune), rates, strict=True)
    )


@pytest.fixture(scope="module")
def weak():
    """Twenty classes that two numbers cannot tell apart: the network knows next to nothing."""
    return make_blobs(rows=600, classes=20, dims=2, noise=0.2)


@pytest.fixture(scope="module")
def run(make_training, carry_on, tmp_path_factory):
    """A training to its end: loop, state and folder. A third of the rows is held out, with their given labels."""

    def carry_out(splits, phases, folder=None, listeners=(), **options):
        folder = folder or tmp_path_factory.mktemp("run")
        training = begin(splits, phases, folder, **options)
        loop, finished = carry_on(training, folder / "metrics.jsonl", listeners)
        assert finished
        return loop, end_state(training), folder

    def begin(splits, phases, folder, *, validated=True, **options):
        rows = torch.arange(len(splits.train))
        held_out = splits.train.subset(rows[rows % 3 == 0]) if validated else None
        shown = replace(splits, train=splits.train.subset(rows[rows % 3 > 0]))
        training = make_training(shown, folder, validation=held_out, **options)
        training.learner.phases = phases
        return training

    carry_out.begin = begin
    return carry_out


def restored_epoch(folder):
    return next(line["epoch"] for line in read_json_lines(folder / "metrics.jsonl") if "restored" in line)


def test_alarms_that_stay_silent_change_nothing(run, blobs):
    _, plain, folder = run(blobs, plan(1, 4, 2), keep=1)
    loop, state, same = run(blobs, plan(1, 4, 2), keep=1, alarms=AlarmActions())
    assert_same(plain, state)
    assert loop.alarms == []
    watched = {"label_classes_lost", "predicted_classes_lost"}
    lines = [{k: v for k, v in line.items() if k not in watched} for line in without_times(same)]
    assert lines == without_times(folder)
    assert [path.name for path in (same / "checkpoints").iterdir()] == [
        path.name for path in (folder / "checkpoints").iterdir()
    ]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("collapse", {"method": FORCE, "alarms": AlarmActions(drift="report")}),
        (
            "drift",
            {
                "method": Pencil(label_rate=50.0, pull=0.0),
                "alarms": AlarmActions(collapse="report"),
                "model": "mlp",
                "args": {"hidden": (8,)},
            },
        ),
        (
            "changes",
            {
                "method": Pencil(label_rate=20.0, pull=0.0),
                "alarms": replace(REPORT, changes="finish"),
                "noise_rate": (0.2, 0.25),
            },
        ),
    ],
)
def test_an_alarm_ends_correction_with_the_best_labels(run, weak, blobs, name, options):
    splits = blobs if name == "drift" else weak
    phases = plan(4, 20, 2, rate=0.05, correction_rate=0.4 if name == "drift" else 0.05)
    loop, state, folder = run(splits, phases, **options)
    assert [record["name"] for record in loop.alarms if record["action"] != "reported only"] == [name]
    alarm = next(record for record in loop.alarms if record["name"] == name)
    best = restored_epoch(folder)
    assert alarm["action"] == f"correction was ended, and labels and network of epoch {best} were restored"
    assert alarm["remedy"]
    tried = read_json_lines(folder / "metrics.jsonl")[
        3 : alarm["epoch"] - 1
    ]  # from the last before correction on
    scores = {line["epoch"]: line["validation_accuracy"] for line in tried}
    assert scores[best] == max(scores.values())
    _, planned, same = run(splits, correction_ended(phases, best), **options | {"alarms": None})
    assert_same(planned, state)
    assert [line["epoch"] for line in read_metrics(folder / "metrics.jsonl")] == [
        line["epoch"] for line in read_metrics(same / "metrics.jsonl")
    ]


def test_without_held_out_labels_the_state_before_correction_comes_back(run, weak):
    phases = plan(2, 20, 2, rate=0.05)
    loop, state, folder = run(weak, phases, method=FORCE, validated=False, alarms=AlarmActions())
    assert [record["name"] for record in loop.alarms] == ["collapse"]
    assert restored_epoch(folder) == 2
    _, planned, _ = run(weak, plan(2, 0, 2, rate=0.05), method=FORCE, validated=False)
    assert_same(planned, state)
    assert read_metrics(folder / "metrics.jsonl")[-1]["labels_changed"] == 0


def test_an_alarm_may_only_be_reported(run, weak):
    phases = plan(2, 8, 1, rate=0.05)
    _, planned, _ = run(weak, phases, method=FORCE)
    loop, state, _ = run(weak, phases, method=FORCE, alarms=REPORT)
    assert_same(planned, state)
    assert {record["name"]: record["action"] for record in loop.alarms}["collapse"] == "reported only"


def test_an_alarm_may_stop_the_run(run, weak):
    with pytest.raises(
        AlarmError, match=r"collapsed to few classes: .*; lower the label rate .* alarms.collapse"
    ):
        run(weak, plan(2, 20, 2, rate=0.05), method=FORCE, alarms=AlarmActions(collapse="stop"))


def test_values_that_are_not_finite_end_correction_if_asked(run, blobs):
    phases, small = plan(2, 5, 2, correction_rate=1e6), {"batch_size": 20}
    with pytest.raises(NotFiniteError, match=r"lower phases\.correction\.learning_rate"):
        run(blobs, phases, alarms=AlarmActions(), **small)
    loop, state, folder = run(blobs, phases, alarms=AlarmActions(not_finite="finish"), **small)
    (alarm,) = loop.alarms
    assert (alarm["name"], alarm["epoch"]) == ("not_finite", 3)
    assert alarm["words"].endswith("is not finite")
    assert "lower phases.correction.learning_rate" in alarm["remedy"]
    assert restored_epoch(folder) == 2
    _, planned, _ = run(blobs, plan(2, 0, 2), **small)
    assert_same(planned, state)


def test_a_second_fault_ends_the_run(run, blobs):
    phases = plan(2, 2, 2, correction_rate=1e6)
    phases = (*phases[:2], replace(phases[2], learning_rate=1e6))
    with pytest.raises(NotFiniteError, match=r"lower phases\.finetune\.learning_rate"):
        run(blobs, phases, alarms=AlarmActions(not_finite="finish"))
    with pytest.raises(NotFiniteError, match=r"lower phases\.backbone\.learning_rate"):
        run(blobs, plan(2, 2, 2, rate=1e6), alarms=AlarmActions(not_finite="finish"))


ALL_KINDS = {
    "collapse": {"method": FORCE, "alarms": AlarmActions()},
    "not finite": {"alarms": AlarmActions(not_finite="finish"), "correction_rate": 1e6},
}


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_a_run_killed_at_any_moment_ends_the_same(run, weak, carry_on, tmp_path, kind):
    options = {"batch_size": 200, "checkpoint_steps": 1, **ALL_KINDS[kind]}
    phases = plan(1, 8, 1, correction_rate=options.pop("correction_rate", None), rate=0.05)
    folder, copies = tmp_path / "whole", tmp_path / "copies"
    folder.mkdir()
    copies.mkdir()
    disk, training = Disk(folder, copies), run.begin(weak, phases, folder, **options)
    training.checkpoints = AtOnce(folder / "checkpoints", training.runtime, 2)
    with pytest.MonkeyPatch.context() as patch:
        disk.watch(patch)
        loop, finished = carry_on(training, folder / "metrics.jsonl", [disk])
    assert finished
    state, expected = end_state(training), without_times(folder)
    assert any("restored" in line for line in expected)
    assert disk.count > 15
    for copy in sorted(copies.iterdir())[::2]:
        again, same, _ = run(weak, phases, copy, **options)
        assert_same(state, same)
        assert without_times(copy) == expected, copy.name
        assert again.alarms == loop.alarms


class Best:
    """A user's policy: keeps the second epoch, ends after the fourth, and remembers what it saw."""

    def __init__(self):
        self.seen = []

    def decide(self, end):
        self.seen.append(end)
        epoch = end.metrics["epoch"]
        return Stop() if epoch == 4 else Continue(keep="mine") if epoch == 2 else Continue()


def test_a_users_policy_decides_beside_the_alarms(run, blobs):
    policy = Best()
    loop, state, _ = run(blobs, plan(1, 6, 1), alarms=AlarmActions(), policy=policy)
    _, planned, _ = run(blobs, plan(1, 3, 0))
    assert_same(planned, state)
    assert [end.metrics["epoch"] for end in policy.seen] == [1, 2, 3, 4]
    assert policy.seen[-1].kept == {"mine": 2}
    decisions = [past.decision for past in policy.seen[-1].history]
    assert decisions == [Continue(), Continue(keep="mine"), Continue()]
    kept = loop.progress.course.kept
    assert set(kept) == {"mine", BEST}


def test_a_users_policy_does_not_see_a_fault(run, blobs):
    class Look(Best):
        def decide(self, end):
            self.seen.append(end)
            return Continue()

    policy = Look()
    phases = plan(2, 5, 2, correction_rate=1e6)
    run(blobs, phases, alarms=AlarmActions(not_finite="finish"), policy=policy, batch_size=20)
    assert [end.metrics["epoch"] for end in policy.seen] == [1, 2, 3, 4]
    assert all("validation_accuracy" in past.metrics for end in policy.seen for past in end.history)


def test_alarms_forget_what_a_users_policy_has_undone():
    """A peak in epochs that were undone is no peak any more."""
    line = {"phase": "correction"}
    before = [Past(line | {"epoch": 1, "validation_accuracy": 0.5}, Continue(keep="start"))]
    peak = [Past(line | {"epoch": 2, "validation_accuracy": 0.9}, Restore("start", plan(0, 9, 0)))]
    after = [Past(line | {"epoch": n, "validation_accuracy": 0.5}, Continue()) for n in (2, 3, 4, 5)]
    watch = Watch(AlarmActions(), 10_000)
    assert watch.records(before + peak + after) == []
    kept = [replace(past, decision=Continue()) for past in peak]
    assert [record["name"] for record in watch.records(before + kept + after)] == ["drift"]


def test_reports_of_epochs_that_were_undone_are_dropped():
    """More changes than allowed were reported, and then the labels before them came back."""
    line = {"phase": "correction", "labels_changed": 5, "examples": 10, "noise_rate_high": 0.2}
    start = [Past(line | {"epoch": 1, "labels_changed": 0}, Continue(keep=(BEST,)))]
    many = [Past(line | {"epoch": 2}, Continue())]
    lost = [Past(line | {"epoch": 3, "label_classes_lost": 0.9}, Restore(BEST, plan(0, 1, 0)))]
    watch = Watch(AlarmActions())
    assert [record["name"] for record in watch.records(start + many)] == ["changes"]
    assert [record["name"] for record in watch.records(start + many + lost)] == ["collapse"]


def test_only_runs_with_a_users_policy_need_it_again(run, blobs, carry_on, tmp_path):
    phases = plan(1, 2, 1)
    _, plain, folder = run(blobs, phases, alarms=AlarmActions(), checkpoint_steps=1)
    for step in sorted((folder / "checkpoints").iterdir())[-1:]:
        for path in sorted(step.rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
        step.rmdir()
    _, resumed, _ = run(blobs, phases, folder, alarms=AlarmActions(), checkpoint_steps=1)
    assert_same(plain, resumed)


def test_the_alarms_checkpoint_is_hidden_from_the_user():
    both = Past({"epoch": 1}, Continue(keep=("mine", BEST)))
    only = Past({"epoch": 2}, Stop(keep=(BEST,), release=("mine", BEST)))
    end = EpochEnd({"epoch": 3}, plan(1, 1, 1), (both, only), {"mine": 1, BEST: 2})
    seen = without_alarms(end)
    assert [past.decision for past in seen.history] == [Continue(keep="mine"), Stop(release=("mine",))]
    assert seen.kept == {"mine": 1}


def test_the_labels_before_a_round_that_a_policy_adds_are_kept():
    phases = plan(1, 1, 1)
    past = Past({"epoch": 2, "phase": "correction", "validation_accuracy": 0.5}, Continue(keep=(BEST,)))
    end = EpochEnd({"epoch": 3, "phase": "finetune", "validation_accuracy": 0.6}, phases, (past,), {BEST: 2})
    added = Continue(phases=(*phases, *phases[1:]))
    assert BEST in _naming(added, end, "validation_accuracy").names
    assert _naming(Continue(), end, "validation_accuracy").release == (BEST,)
