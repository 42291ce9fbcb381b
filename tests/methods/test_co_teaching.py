"""Co-teaching: each network learns from the other's choice alone; two networks in one model, run by the same loop."""

import pytest
import torch

from pencil.algorithm import cross_entropy
from pencil.config import RunConfig
from pencil.engine import Loop
from pencil.errors import ConfigError
from pencil.methods import CoTeaching, CrossEntropy
from pencil.models import Pair, apart, build_model
from pencil.run.method import check_networks

pytestmark = pytest.mark.slow

GIVEN = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1])


def two_logits():
    generator = torch.Generator().manual_seed(0)
    return (2 * torch.randn(8, 2, 3, generator=generator, dtype=torch.float64)).requires_grad_()


def stepped(logits, moment, **settings):
    return CoTeaching(**settings).step(logits, torch.empty(8, 0), GIVEN, moment)


def test_the_loss_is_that_of_a_naive_loop(moment):
    logits = two_logits()
    step = stepped(logits, moment("finetune"), forget_rate=0.4)
    losses = [cross_entropy(logits[:, net].detach(), GIVEN).tolist() for net in (0, 1)]
    easy = [sorted(range(8), key=losses[net].__getitem__)[:4] for net in (0, 1)]  # int(0.6 * 8) of them
    naive = sum(sum(losses[net][row] for row in easy[1 - net]) / 4 for net in (0, 1))
    assert float(step.loss.detach().mean()) == pytest.approx(naive, rel=1e-12)
    assert step.rows is None


def test_a_network_learns_only_from_what_the_other_chose(moment):
    logits = two_logits()
    stepped(logits, moment("finetune"), forget_rate=0.5).loss.mean().backward()
    for net in (0, 1):
        taught = logits.grad[:, net].abs().sum(dim=1) > 0
        chosen = cross_entropy(logits[:, 1 - net].detach(), GIVEN).argsort()[:4]
        assert taught.nonzero().flatten().tolist() == sorted(chosen.tolist())


def test_forgetting_nothing_is_cross_entropy_for_both(moment):
    logits = two_logits()
    expected = cross_entropy(logits[:, 0], GIVEN) + cross_entropy(logits[:, 1], GIVEN)
    torch.testing.assert_close(stepped(logits, moment("finetune"), forget_rate=0.0).loss, expected)
    torch.testing.assert_close(stepped(logits, moment("backbone"), forget_rate=0.5).loss, expected)


def test_the_share_kept_falls_over_the_first_epochs_of_correction(moment):
    method = CoTeaching(forget_rate=0.4, gradual=4)
    shares = [method.kept_share(moment(elapsed=elapsed)) for elapsed in (0, 2, 4, 8)]
    assert shares == pytest.approx([1.0, 0.8, 0.6, 0.6])
    assert method.kept_share(moment("finetune")) == pytest.approx(0.6)


def test_one_networks_logits_are_refused(moment):
    with pytest.raises(ValueError, match=r"logits: \(8, 3\) must be of two networks"):
        stepped(torch.zeros(8, 3), moment())


@pytest.mark.parametrize("settings", [{"forget_rate": 1.0}, {"forget_rate": -0.1}, {"gradual": 0.0}])
def test_senseless_settings_are_refused_by_name(settings):
    with pytest.raises(ValueError, match=f"^{next(iter(settings))}: "):
        CoTeaching(**settings)


def test_a_pair_trains_two_networks_and_predicts_with_their_mean_probability():
    pair = build_model(
        "pair", num_classes=3, input_shape=(4,), args={"name": "mlp", "args": {"hidden": (5,)}}
    )
    assert isinstance(pair, Pair)
    inputs = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    both = torch.stack([pair.first(inputs), pair.second(inputs)], dim=1)
    assert torch.equal(pair(inputs), both)
    assert not torch.allclose(both[:, 0], both[:, 1])
    pair.eval()
    torch.testing.assert_close(pair(inputs).softmax(dim=1), both.softmax(dim=2).mean(dim=1))
    with apart(torch.nn.Sequential(pair)):
        assert torch.equal(pair(inputs), both)
    assert pair(inputs).shape == (6, 3)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({}, r"model\.args\.name: missing"),
        ({"nme": "linear"}, "did you mean 'name'"),
        ({"name": "x"}, "is unknown"),
    ],
)
def test_a_pair_of_nothing_known_is_refused(args, message):
    with pytest.raises(ConfigError, match=message):
        build_model("pair", num_classes=3, input_shape=(4,), args=args)


class Last:
    def handle(self, event):
        if event.kind == "epoch":
            self.values = event.values

    def close(self):
        pass


def test_on_noisy_labels_it_beats_two_networks_that_forget_nothing(blobs, make_training):
    def accuracy(method, **model):
        last, training = Last(), make_training(blobs, method=method, epochs=(4, 26, 10), rate=0.1, **model)
        training.events.listeners = (last,)
        training.evaluate_every = 99
        assert Loop(training).run()
        return last.values["test_accuracy"]

    pair = {"model": "pair", "args": {"name": "linear"}}
    found = accuracy(CoTeaching(forget_rate=0.4), **pair)
    assert found > accuracy(CoTeaching(forget_rate=0.0), **pair)
    assert found > accuracy(CrossEntropy())


def test_it_resumes_bit_for_bit(blobs, make_training, carry_on, tmp_path):
    options = {"method": CoTeaching(gradual=1.0), "model": "pair", "args": {"name": "linear"}}
    whole = make_training(blobs, tmp_path / "whole", checkpoint_steps=7, keep=9, **options)
    assert carry_on(whole, tmp_path / "whole.jsonl")[1]
    for later in sorted((tmp_path / "whole" / "checkpoints").glob("step-*"))[2:]:
        later.rename(tmp_path / later.name)
    resumed = make_training(blobs, tmp_path / "whole", **options)
    loop = Loop(resumed)
    assert loop.resume()
    assert loop.step == 14
    assert loop.run()
    for name, value in whole.model.state_dict().items():
        assert torch.equal(resumed.model.state_dict()[name], value), name


@pytest.mark.parametrize(
    ("method", "model", "message"),
    [
        ("co_teaching", "linear", r"--set model\.name=pair --set model\.args\.name=linear"),
        ("pencil", "pair", "method pencil trains one network"),
    ],
)
def test_a_method_and_a_model_that_do_not_fit_are_refused(method, model, message):
    config = RunConfig.of(
        {
            "data": {"kind": "features", "path": "x.npz"},
            "model": {"name": model},
            "method": {"name": method},
            "phases": [{"name": "correction", "epochs": 1, "learning_rate": 0.1}],
        }
    )
    with pytest.raises(ConfigError, match=message):
        check_networks(config)
