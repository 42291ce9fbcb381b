"""The loop corrects labels, tells what it does, and a run stopped anywhere continues bit for bit."""

import os
import shutil
import signal
from dataclasses import replace

import pytest
import torch
from torch.utils.data import TensorDataset

from pencil.algorithm import Pencil
from pencil.data import Augment, DatasetInputs
from pencil.engine import Events, Loop, Runtime
from pencil.errors import RunError
from pencil.methods import CrossEntropy

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")


class Notes:
    """Hears everything; may send a signal when a step is done."""

    def __init__(self, stop_at=None, number=signal.SIGTERM):
        self.events, self.stop_at, self.number = [], stop_at, number

    def handle(self, event):
        self.events.append(event)
        if event.kind == "step" and event.step == self.stop_at:
            os.kill(os.getpid(), self.number)

    def close(self):
        pass

    def kinds(self):
        return [event.kind for event in self.events]

    def of(self, kind):
        return [event for event in self.events if event.kind == kind]


def trained(training, *listeners):
    training.events = Events(listeners)
    loop = Loop(training)
    assert loop.run()
    return loop


def end_state(training):
    """Everything that training leaves behind."""
    momentum = {
        f"optimizer/{name}/{key}": value
        for name, parameter in training.model.named_parameters()
        for key, value in training.optimizer.state[parameter].items()
    }
    return {**training.model.state_dict(), **training.learner.store.state(), **momentum}


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert torch.equal(other[name], value), name


PLAN = {"epochs": (2, 12, 6), "method": Pencil(label_rate=2.0)}


@pytest.fixture(scope="module")
def pencil_run(blobs, make_training):
    notes = Notes()
    return trained(make_training(blobs, **PLAN), notes), notes


def test_pencil_corrects_most_wrong_labels_and_spoils_few_right_ones(blobs, pencil_run):
    given, truth = blobs.train.labels.hard, blobs.train.reference
    suggested = pencil_run[0].training.learner.labels().suggested
    wrong = given != truth
    assert 0.25 < float(wrong.float().mean()) < 0.5
    assert float((suggested == truth)[wrong].float().mean()) > 0.8
    assert float((suggested == truth)[~wrong].float().mean()) > 0.9


def test_the_network_is_far_more_often_right_than_the_labels_it_was_given(blobs, pencil_run):
    last = pencil_run[1].of("epoch")[-1].values
    given_right = float((blobs.train.labels.hard == blobs.train.reference).float().mean())
    assert last["test_accuracy"] > (1 + given_right) / 2
    assert last["labels_correct"] > (1 + given_right) / 2


def test_every_epoch_has_its_metrics(blobs, pencil_run):
    loop, notes = pencil_run
    epochs = [event.values for event in notes.of("epoch")]
    assert [values["epoch"] for values in epochs] == list(range(1, 21))
    assert [values["phase"] for values in epochs] == ["backbone"] * 2 + ["correction"] * 12 + ["finetune"] * 6
    for values in epochs:
        assert values.keys() == {
            *("epoch", "phase", "learning_rate", "loss", "train_agreement"),
            *("labels_changed", "forward_passes", "test_accuracy", "labels_correct", "seconds"),
        }
        assert values["seconds"] > 0
        assert 0 <= values["train_agreement"] <= 1
    learned = loop.training.learner.labels()
    changed = int((learned.suggested != learned.given).sum())
    assert epochs[1]["labels_changed"] == 0
    assert epochs[-1]["labels_changed"] == changed > 0
    assert epochs[-1]["labels_correct"] == float((learned.suggested == blobs.train.reference).double().mean())


def test_events_tell_the_whole_run_in_order(pencil_run):
    loop, notes = pencil_run
    assert notes.kinds() == ["begin", *(["step"] * 9 + ["epoch", "step"]) * 20, "end"]
    assert [event.step for event in notes.of("step")] == list(range(1, 201))
    end = notes.events[-1]
    assert (end.step, end.values["total_steps"], end.values["seconds_left"]) == (200, 200, 0)
    assert loop.step == loop.total_steps == 200


def test_cross_entropy_runs_in_the_same_loop_and_changes_no_label(blobs, make_training):
    notes = Notes()
    trained(make_training(blobs, method=CrossEntropy()), notes)
    assert all(event.values["labels_changed"] == 0 for event in notes.of("epoch"))


def test_metrics_average_over_all_examples_of_the_epoch(blobs, make_training):
    """At learning rate 0 the epoch's mean loss is that of one pass over everything."""
    notes, training = (
        Notes(),
        make_training(blobs, epochs=(1, 0, 0), rate=0.0, batch_size=77, method=CrossEntropy()),
    )
    trained(training, notes)
    with torch.no_grad():
        logits = training.model(blobs.train.inputs.values)
    loss = torch.nn.functional.cross_entropy(logits, blobs.train.labels.hard)
    agreement = (logits.argmax(dim=1) == blobs.train.labels.hard).double().mean()
    [epoch] = notes.of("epoch")
    assert epoch.values["loss"] == pytest.approx(float(loss), rel=1e-5)
    assert epoch.values["train_agreement"] == float(agreement)


@pytest.mark.parametrize("accumulate", [2, 7])
def test_accumulation_changes_nothing_but_rounding(blobs, make_training, accumulate):
    whole, parts = (make_training(blobs, accumulate=count) for count in (1, accumulate))
    trained(whole), trained(parts)
    for name, value in end_state(whole).items():
        torch.testing.assert_close(end_state(parts)[name], value, rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # Python 3.12, where threads are about
@pytest.mark.parametrize("workers", [0, 1])
def test_passes_without_rows_change_nothing_though_a_dataset_cannot_fetch_nothing(
    blobs, make_training, workers
):
    """61 rows in 11 steps of 5 or 6 rows, each cut into 6 passes."""
    few = blobs.train.subset(torch.arange(61))
    own = replace(few, inputs=DatasetInputs(TensorDataset(blobs.train.inputs.values[:61])))
    whole, parts = (
        make_training(replace(blobs, train=own), epochs=(0, 2, 0), batch_size=6, **options)
        for options in ({}, {"accumulate": 6, "workers": workers})
    )
    trained(whole), trained(parts)
    for name, value in end_state(whole).items():
        torch.testing.assert_close(end_state(parts)[name], value, rtol=1e-4, atol=1e-4)


def test_weights_of_one_change_nothing_and_rows_of_weight_0_teach_nothing(blobs, make_training):
    rows = len(blobs.train)
    plain = make_training(blobs)
    ones = make_training(blobs, weights=torch.ones(rows))
    for training in (plain, ones):
        trained(training)
    assert_same(end_state(plain), end_state(ones))
    heard = torch.arange(rows) < 300
    unheard = replace(
        blobs.train, labels=replace(blobs.train.labels, values=blobs.train.labels.values.clone())
    )
    unheard.labels.values[~heard] = 0
    weights = 2.0 * heard.float()
    either = [
        make_training(
            replace(blobs, train=train), method=CrossEntropy(), weights=weights, accumulate=accumulate
        )
        for train, accumulate in ((blobs.train, 1), (unheard, 1), (blobs.train, 3))
    ]
    for training in either:
        trained(training)
    states = [training.model.state_dict() for training in either]
    assert_same(states[0], states[1])
    for name, value in states[0].items():
        torch.testing.assert_close(states[2][name], value, rtol=1e-4, atol=1e-5)


def test_evaluation_may_be_rarer_but_the_last_epoch_of_a_phase_always_has_one(blobs, make_training):
    notes = Notes()
    trained(make_training(blobs, evaluate_every=9, epochs=(2, 3, 1), validation=blobs.test), notes)
    measured = [event.values["epoch"] for event in notes.of("epoch") if "test_accuracy" in event.values]
    assert measured == [2, 5, 6]
    assert (
        notes.of("epoch")[-1].values["validation_accuracy"] == notes.of("epoch")[-1].values["test_accuracy"]
    )


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ({"checkpoint_steps": 15}, [15, 30, 40]),
        ({"checkpoint_steps": 20}, [20, 40]),
        ({"checkpoint_seconds": 1e-9, "epochs": (1, 2, 0), "batch_size": 300}, [1, 2, 3, 4, 5, 6]),
        ({}, [40]),
    ],
)
def test_checkpoints_come_when_due_and_at_the_end(blobs, make_training, tmp_path, options, steps):
    notes = Notes()
    trained(make_training(blobs, tmp_path, keep=9, **options), notes)
    assert [event.step for event in notes.of("checkpoint")] == steps
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == [
        f"step-{step:010d}" for step in steps
    ]


BLOBS = {
    "momentum": {},
    "AdamW": {"optimizer": "adamw", "rate": 0.01},
    "dropout": {"model": "mlp", "args": {"hidden": (16,), "dropout": 0.5}},
    "accumulation": {"accumulate": 4, "model": "mlp", "args": {"hidden": (8,), "batch_norm": True}},
    "cross entropy": {"method": CrossEntropy()},
    "uneven batches": {"batch_size": 77, "evaluate_every": 2},
}
IMAGES = {
    "model": "small_cnn",
    "args": {"widths": (4, 8, 8)},
    "batch_size": 6,
    "augment": Augment(pad=2, flip=True),
    "runtime": Runtime(device=CPU, precision="bf16", channels_last=True),
}
RUNS = [*BLOBS, "images"]


@pytest.fixture(scope="module")
def start(blobs, images, make_training):
    """A training of a kind by name, always the same one."""

    def begin(kind, folder, **options):
        if kind == "images":
            return make_training(images, folder, **{**IMAGES, **options})
        return make_training(blobs, folder, **{**BLOBS[kind], **options})

    return begin


@pytest.fixture(scope="module")
def uninterrupted(start, carry_on, tmp_path_factory):
    """Runs that nobody stopped, with a checkpoint every 7 steps: (training, folder), made once for each kind."""
    runs = {}

    def run(kind):
        if kind not in runs:
            folder = tmp_path_factory.mktemp("whole")
            training = start(kind, folder, checkpoint_steps=7, keep=99)
            assert carry_on(training, folder / "metrics.jsonl")[1]
            runs[kind] = training, folder
        return runs[kind]

    return run


@pytest.mark.parametrize("kind", RUNS)
@pytest.mark.parametrize("stop_at", [12, 15, 19], ids=lambda step: f"stop at {step}")
def test_a_run_stopped_by_sigterm_resumes_bit_for_bit(
    start, uninterrupted, carry_on, without_seconds, tmp_path, kind, stop_at
):
    notes, stopped = Notes(stop_at), start(kind, tmp_path)
    loop, finished = carry_on(stopped, tmp_path / "metrics.jsonl", [notes])
    assert not finished
    assert loop.step == stop_at + 1 < loop.total_steps
    assert notes.kinds()[-3:] == ["checkpoint", "step", "stopped"]
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == [f"step-{stop_at + 1:010d}"]
    resumed = start(kind, tmp_path)
    loop, finished = carry_on(resumed, tmp_path / "metrics.jsonl")
    assert finished
    whole, folder = uninterrupted(kind)
    assert_same(end_state(whole), end_state(resumed))
    assert without_seconds(tmp_path / "metrics.jsonl") == without_seconds(folder / "metrics.jsonl")


@pytest.mark.parametrize("kind", RUNS)
@pytest.mark.parametrize("step", [7, 21], ids=lambda step: f"step {step}")
def test_a_killed_run_resumes_from_its_last_checkpoint_bit_for_bit(
    start, uninterrupted, carry_on, without_seconds, tmp_path, kind, step
):
    """As a crash leaves it: a last line of metrics cut off, the newest checkpoint damaged, half of another."""
    whole, folder = uninterrupted(kind)
    name = f"checkpoints/step-{step:010d}"
    shutil.copytree(folder / name, tmp_path / name)
    (tmp_path / "checkpoints" / ".step-0000000028.partial").mkdir()
    shutil.copytree(folder / name, tmp_path / "checkpoints" / "step-0000000027")
    (tmp_path / "checkpoints" / "step-0000000027" / "__0_0.distcp").write_bytes(b"cut")
    (tmp_path / "metrics.jsonl").write_bytes((folder / "metrics.jsonl").read_bytes()[:-5])
    resumed = start(kind, tmp_path)
    with pytest.warns(UserWarning, match="step-0000000027 is not used"):
        assert carry_on(resumed, tmp_path / "metrics.jsonl")[1]
    assert_same(end_state(whole), end_state(resumed))
    assert without_seconds(tmp_path / "metrics.jsonl") == without_seconds(folder / "metrics.jsonl")


def test_a_run_stopped_again_and_again_ends_the_same(
    start, uninterrupted, carry_on, without_seconds, tmp_path
):
    for stop_at in (3, 10, 17, 30):
        notes = Notes(stop_at, signal.SIGINT)
        assert not carry_on(start("dropout", tmp_path), tmp_path / "metrics.jsonl", [notes])[1]
    training = start("dropout", tmp_path)
    assert carry_on(training, tmp_path / "metrics.jsonl")[1]
    whole, folder = uninterrupted("dropout")
    assert_same(end_state(whole), end_state(training))
    assert without_seconds(tmp_path / "metrics.jsonl") == without_seconds(folder / "metrics.jsonl")


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # Python 3.12, where threads are about
def test_processes_that_read_ahead_change_nothing_and_resume_exactly(
    start, uninterrupted, carry_on, tmp_path
):
    assert not carry_on(start("dropout", tmp_path, workers=1), tmp_path / "metrics.jsonl", [Notes(12)])[1]
    resumed = start("dropout", tmp_path, workers=1)
    assert carry_on(resumed, tmp_path / "metrics.jsonl")[1]
    assert_same(end_state(uninterrupted("dropout")[0]), end_state(resumed))


def test_a_finished_run_resumed_has_nothing_left_to_do(start, carry_on, tmp_path):
    first, again = start("momentum", tmp_path), start("momentum", tmp_path)
    carry_on(first, tmp_path / "metrics.jsonl")
    before = (tmp_path / "metrics.jsonl").read_bytes()
    notes = Notes()
    assert carry_on(again, tmp_path / "metrics.jsonl", [notes])[1]
    assert notes.kinds() == ["begin", "checkpoint", "end"]
    assert_same(end_state(first), end_state(again))
    assert (tmp_path / "metrics.jsonl").read_bytes() == before


def test_without_a_checkpoint_there_is_nothing_to_resume(start, tmp_path):
    assert Loop(start("momentum", None)).resume() is False
    assert Loop(start("momentum", tmp_path)).resume() is False


@pytest.mark.parametrize("count", [599, 601])
def test_a_run_does_not_go_on_with_other_data(blobs, start, make_training, carry_on, tmp_path, count):
    carry_on(start("momentum", tmp_path), tmp_path / "metrics.jsonl")
    other = replace(blobs, train=blobs.train.subset(torch.arange(count) % 600))
    with pytest.raises(RunError, match=f"is of 600 rows, but the data now has {count}; resume with the data"):
        Loop(make_training(other, tmp_path)).resume()


def test_a_signal_in_the_last_step_lets_the_run_end(start, carry_on, tmp_path):
    notes = Notes(stop_at=39)  # heard after step 39, acted upon after step 40 of 40
    assert carry_on(start("momentum", tmp_path), tmp_path / "metrics.jsonl", [notes])[1]
    assert notes.kinds()[-2:] == ["checkpoint", "end"]
    assert "stopped" not in notes.kinds()


def test_two_runs_alike_end_alike(start, uninterrupted):
    again = start("dropout", None)
    trained(again)
    assert_same(end_state(uninterrupted("dropout")[0]), end_state(again))
