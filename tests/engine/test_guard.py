"""A run stops before what is not finite gets into weights, label rows or checkpoints, and says what it was."""

import math
from dataclasses import dataclass, replace

import pytest
import torch
from torch import nn

from pencil.algorithm import Pencil, Step
from pencil.data import TensorInputs
from pencil.engine import Loop
from pencil.engine.checkpoint import damage
from pencil.errors import NotFiniteError
from pencil.methods import DivideMix, Forward

pytestmark = pytest.mark.slow

BEFORE = r"^training stopped after step 7 \(epoch 1, backbone phase\): "
RATE = r"usually the learning rate is too large; lower phases\.backbone\.learning_rate, 0\.02 now"
LAST = r"; the last checkpoint is of step 6$"


class Spoilt(nn.Module):
    """A network whose output is multiplied by ``factor`` from its eighth pass of a kind on."""

    def __init__(self, inner, factor=math.nan, *, training=True, passes=7):
        super().__init__()
        self.inner, self.factor, self.spoils, self.passes = inner, factor, training, passes
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))

    def forward(self, inputs):
        outputs = self.inner(inputs)
        if self.training is not self.spoils:
            return outputs
        self.seen += 1
        return outputs * self.factor if self.seen > self.passes else outputs


@dataclass(frozen=True, kw_only=True)
class SpoiltRows(Pencil):
    """PENCIL whose new rows are not finite from the eighth step on, while its losses are."""

    def step(self, logits, rows, given, moment):
        found = super().step(logits, rows, given, moment)
        late = moment.elapsed >= 0.7
        return Step(found.loss, rows / 0 if late else found.rows)


@pytest.fixture
def spoilt(blobs, make_training, tmp_path):
    """A training of ten steps an epoch, its network wrapped."""

    def make(wrap=lambda network: network, **rest):
        training = make_training(blobs, tmp_path, checkpoint_steps=2, **{"epochs": (2, 2, 0), **rest})
        training.model = wrap(training.model)
        training.optimizer = torch.optim.SGD(training.model.parameters(), lr=0.0, momentum=0.9)
        return training

    return make


def assert_stops(training, message):
    with pytest.raises(NotFiniteError, match=message) as first:
        Loop(training).run()
    return str(first.value)


def assert_nothing_spread(training, tmp_path, steps=("step-0000000004", "step-0000000006")):
    found = sorted((tmp_path / "checkpoints").iterdir())
    assert [path.name for path in found] == list(steps)
    assert [damage(path) for path in found] == [None] * len(found)
    assert all(torch.isfinite(weight).all() for weight in training.model.parameters())
    assert all(torch.isfinite(values).all() for values in training.learner.store.state().values())


def test_an_output_that_is_not_finite_stops_the_run_and_its_resumption_alike(spoilt, tmp_path):
    training = spoilt(Spoilt)
    told = assert_stops(
        training, BEFORE + r"the network's output for example '\d+' is not finite: " + RATE + LAST
    )
    assert_nothing_spread(training, tmp_path)
    again = Loop(spoilt(Spoilt))
    assert again.resume()
    with pytest.raises(NotFiniteError) as second:
        again.run()
    assert str(second.value) == told


def test_a_changed_setting_lets_the_resumed_run_go_on(spoilt):
    assert_stops(spoilt(Spoilt), BEFORE)
    again = Loop(spoilt(lambda network: Spoilt(network, factor=1.0)))
    assert again.resume()
    assert again.run()


def test_a_gradient_that_is_not_finite_never_reaches_the_weights(spoilt, tmp_path):
    training = spoilt()
    weight, calls = training.model[1].weight, []

    def hook(gradient):
        calls.append(1)
        return gradient * math.inf if len(calls) > 7 else gradient

    weight.register_hook(hook)
    assert_stops(training, BEFORE + r"the gradient of 1\.weight is not finite: " + RATE + LAST)
    assert_nothing_spread(training, tmp_path)


def test_label_rows_that_are_not_finite_are_not_written(spoilt, tmp_path):
    training = spoilt(method=SpoiltRows(label_rate=4.0), epochs=(0, 2, 0))
    words = r"the new label row of example '\d+' is not finite: lower the rates among the settings of method"
    assert_stops(training, r"^training stopped after step 7 \(epoch 1, correction phase\): " + words + LAST)
    assert_nothing_spread(training, tmp_path)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (math.nan, "the input of example '17' is not finite: fix it in the data, or leave the example out"),
        (3e38, r"is not finite: inputs reach 3\.0e\+38; scale them, or set data\.normalize = 'auto'"),
    ],
)
def test_inputs_are_blamed_where_they_are_to_blame(spoilt, value, words):
    training = spoilt()
    values = training.train.inputs.values.clone()
    values[17] = value
    training.train = replace(training.train, inputs=TensorInputs(values))
    assert_stops(training, words)


def test_weights_that_a_step_led_out_of_bounds_are_not_saved(spoilt, tmp_path):
    training = spoilt(evaluate_every=9)
    training.test = None
    step = training.optimizer.step

    def spoil(*_):
        step()
        spoil.calls = getattr(spoil, "calls", 0) + 1
        if spoil.calls == 8:
            training.model[1].bias.data[0] = math.inf

    training.optimizer.step = spoil
    words = r"model/1\.bias is not finite: " + RATE + LAST
    assert_stops(training, r"^training stopped after step 8 \(epoch 1, backbone phase\): " + words)
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir())[-1] == "step-0000000006"


def test_an_evaluation_that_is_not_finite_stops_the_run(spoilt):
    training = spoilt(lambda network: Spoilt(network, training=False, passes=0))
    words = "the network's predictions for 600 examples are not finite"
    assert_stops(training, r"^training stopped after step 10 \(epoch 1, backbone phase\): " + words)


def test_a_survey_that_is_not_finite_stops_the_run_before_it_is_believed(spoilt):
    training = spoilt(
        lambda network: Spoilt(network, training=False, passes=0), method=Forward(), epochs=(1, 1, 0)
    )
    training.test = None
    assert_stops(training, r"^training stopped after step 10 .*the network's predictions for 600 examples")
    assert not training.learner.shared["transition"].any()


def test_a_survey_of_rows_that_is_not_finite_writes_none(spoilt, make_training, blobs):
    pair = {"model": "pair", "args": {"name": "linear"}}
    training = spoilt(method=DivideMix(), epochs=(1, 1, 0), **pair)
    training.test = None
    for weight in training.model.parameters():
        weight.register_hook(lambda gradient: gradient * 0)
    before = training.learner.store.state()["values"].clone()
    for member in training.model.modules():
        if isinstance(member, nn.Linear):
            member.register_forward_hook(lambda module, _, out: out if module.training else out * math.nan)
    assert_stops(training, r"the network's predictions for 600 examples are not finite")
    assert torch.equal(training.learner.store.state()["values"], before)


def test_finite_values_whose_sum_is_not_do_not_stop_a_run(spoilt):
    training = spoilt(rate=0.0)
    training.optimizer = torch.optim.SGD(training.model.parameters(), lr=0.0)
    training.model[1].weight.register_hook(lambda gradient: torch.full_like(gradient, 3e38))
    assert Loop(training).run()


def test_a_run_without_checkpoints_says_so(spoilt):
    training = spoilt(Spoilt)
    training.checkpoints = training.test = None
    assert_stops(training, r"; there is no checkpoint yet$")
