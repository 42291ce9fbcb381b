"""Every method in the one loop: better than cross entropy on noisy labels, and resumed bit for bit."""

import tomllib

import pytest
import torch

from pencil.config import RunConfig
from pencil.engine import Loop
from pencil.methods import (
    CrossEntropy,
    EarlyLearning,
    Forward,
    GeneralizedCrossEntropy,
    JointOptimization,
    SparseOverParametrization,
    SymmetricCrossEntropy,
)

pytestmark = pytest.mark.slow

METHODS = {
    "L_q": GeneralizedCrossEntropy(),
    "truncated L_q": GeneralizedCrossEntropy(threshold=0.3, refresh=1),
    "SCE": SymmetricCrossEntropy(),
    "forward, estimated": Forward(),
    "forward, known": Forward(
        transition=tuple(tuple(0.04 + 0.6 * (i == j) for j in range(10)) for i in range(10))
    ),
    "joint, soft": JointOptimization(),
    "joint, hard, prior": JointOptimization(labels="hard", prior_weight=0.5, window=3),
    "ELR": EarlyLearning(),
    "SOP": SparseOverParametrization(),
}
LEARNS_LABELS = ("joint, soft", "joint, hard, prior", "ELR", "SOP")


class Last:
    """Keeps the last epoch's metrics; may ask for a stop by raising at a step, as a crash would."""

    def __init__(self, crash_at=None):
        self.values, self.crash_at = {}, crash_at

    def handle(self, event):
        if event.kind == "epoch":
            self.values = event.values
        if event.kind == "step" and event.step == self.crash_at:
            raise InterruptedError

    def close(self):
        pass


def last_epoch(training):
    notes = Last()
    training.events.listeners = (notes,)
    assert Loop(training).run()
    return notes.values


@pytest.fixture(scope="module")
def cross_entropy_accuracy(blobs, make_training):
    return last_epoch(make_training(blobs, method=CrossEntropy(), **PLAN))["test_accuracy"]


PLAN = {"epochs": (8, 22, 10), "rate": 0.1, "evaluate_every": 99}


@pytest.mark.parametrize(("kind", "passes"), [("L_q", (1, 1, 1)), ("forward, estimated", (1, 3, 1))])
def test_an_epoch_tells_its_forward_passes_surveys_included(blobs, make_training, kind, passes):
    notes = Last()
    training = make_training(blobs, method=METHODS[kind], epochs=(1, 1, 1))
    told = []
    notes.handle = lambda event: (
        told.append(event.values["forward_passes"]) if event.kind == "epoch" else None
    )
    training.events.listeners = (notes,)
    assert Loop(training).run()
    assert told == [len(blobs.train) * count for count in passes]


@pytest.mark.parametrize("kind", METHODS)
def test_on_noisy_labels_every_method_beats_cross_entropy(blobs, make_training, cross_entropy_accuracy, kind):
    last = last_epoch(make_training(blobs, method=METHODS[kind], **PLAN))
    assert last["test_accuracy"] > cross_entropy_accuracy
    given_right = float((blobs.train.labels.hard == blobs.train.reference).double().mean())
    if kind in LEARNS_LABELS:
        assert last["labels_correct"] > (1 + given_right) / 2
    else:
        assert last["labels_correct"] == given_right


def end_state(training):
    learner = training.learner
    return {**training.model.state_dict(), **learner.store.state(), **learner.shared}


@pytest.mark.filterwarnings("ignore:method.window = 10. no label will move")
@pytest.mark.parametrize("kind", METHODS)
@pytest.mark.parametrize("crash_at", [11, 27], ids=lambda step: f"crash at {step}")
def test_a_run_cut_off_resumes_bit_for_bit(blobs, make_training, tmp_path, kind, crash_at):
    """Checkpoints every 5 steps of 10 an epoch: steps 10 (as correction begins) and 25 (within it)."""
    options = {"method": METHODS[kind], "epochs": (1, 2, 1), "rate": 0.05, "evaluate_every": 99}
    whole = make_training(blobs, **options)
    last = last_epoch(whole)
    cut = make_training(blobs, tmp_path, checkpoint_steps=5, **options)
    cut.events.listeners = (Last(crash_at),)
    with pytest.raises(InterruptedError):
        Loop(cut).run()
    resumed, notes = make_training(blobs, tmp_path, **options), Last()
    resumed.events.listeners = (notes,)
    loop = Loop(resumed)
    assert loop.resume()
    assert loop.step == crash_at // 5 * 5
    assert loop.run()
    expected, found = end_state(whole), end_state(resumed)
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        assert torch.equal(found[name], value), name
    assert {**notes.values, "seconds": 0} == {**last, "seconds": 0}


@pytest.mark.parametrize("kind", METHODS)
def test_every_method_survives_toml(kind):
    table = {
        "data": {"kind": "features", "path": "x.npz"},
        "model": {"name": "linear"},
        "phases": [{"name": "correction", "epochs": 1, "learning_rate": 0.1}],
    }
    config = RunConfig.of(table).model_copy(update={"method": METHODS[kind]})
    assert RunConfig.of(tomllib.loads(config.toml())).method == METHODS[kind]
    assert RunConfig.of({**table, "method": {"name": METHODS[kind].name}}).method == type(METHODS[kind])()
