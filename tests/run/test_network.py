"""The network of a run: seeded, normalised, checked before the first step, read back as it was saved."""

import sys

import pytest
import torch
from torch.optim import SGD, AdamW

from pencil.config.schema import Optimizer
from pencil.data import Examples, TensorInputs
from pencil.engine import Runtime
from pencil.errors import ConfigError
from pencil.run import prepare_examples
from pencil.run.build import build_training
from pencil.run.network import (
    build_network,
    build_optimizer,
    build_preparation,
    input_shape,
    model_card,
    trained_network,
)
from pencil.stores import GivenLabels

RUNTIME = Runtime(device=torch.device("cpu"))


@pytest.fixture
def network(make_config):
    def build(**sections):
        config = make_config(**sections)
        train = prepare_examples(config.data, config.seed).train
        return build_network(config, train, build_preparation(config, train, RUNTIME), RUNTIME)

    return build


def images(size=8, rows=5):
    generator = torch.Generator().manual_seed(0)
    values = torch.randint(256, (rows, 3, size, size), generator=generator, dtype=torch.uint8)
    labels = GivenLabels.of(torch.arange(rows) % 2)
    return Examples(TensorInputs(values), labels, ("a", "b"), list("abcde"[:rows]))


def test_weights_go_by_the_seed_and_leave_the_global_generator_alone(network):
    torch.manual_seed(123)
    before = torch.get_rng_state()
    first, again, other = network(), network(), network(seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first[1].weight, again[1].weight)
    assert not torch.equal(first[1].weight, other[1].weight)
    assert first.training


def test_features_lose_their_mean_and_one_scale_for_all(make_config):
    config = make_config()
    train = prepare_examples(config.data, config.seed).train
    preparation = build_preparation(config, train, RUNTIME)
    seen = preparation.evaluation(train.inputs.values)
    torch.testing.assert_close(seen.mean(dim=0), torch.zeros(6), atol=1e-5, rtol=0)
    assert float(seen.square().mean()) == pytest.approx(1.0, abs=1e-4)
    assert len(set(preparation.normalize.std)) == 1


def test_images_lose_mean_and_deviation_of_each_channel(make_config):
    preparation = build_preparation(make_config(), images(), RUNTIME)
    seen = preparation.evaluation(images().inputs.values)
    torch.testing.assert_close(seen.mean(dim=(0, 2, 3)), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(seen.std(dim=(0, 2, 3), correction=0), torch.ones(3), atol=1e-3, rtol=0)


def test_the_mean_alone_or_nothing(make_config):
    mean = build_preparation(make_config(data={"normalize": "mean"}), images(), RUNTIME)
    assert mean.normalize.std == (1.0, 1.0, 1.0)
    assert build_preparation(make_config(data={"normalize": "none"}), images(), RUNTIME).normalize is None


def test_statistics_of_large_data_come_from_a_seeded_sample(make_config, monkeypatch):
    config = make_config()
    train = prepare_examples(config.data, config.seed).train
    whole = build_preparation(config, train, RUNTIME).normalize.mean
    monkeypatch.setattr("pencil.run.network.STATISTICS_ROWS", 50)
    some, again = (build_preparation(config, train, RUNTIME).normalize.mean for _ in range(2))
    assert some == again
    assert some != whole
    torch.testing.assert_close(torch.tensor(some), torch.tensor(whole), atol=1.5, rtol=0)


def test_a_card_says_what_the_network_sees(make_config):
    augment = {"pad": 1, "crop": 6, "flip": True}
    config = make_config(
        data={"augment": augment}, model={"name": "small_cnn", "args": {"widths": [2, 2, 2]}}
    )
    preparation = build_preparation(config, images(), RUNTIME)
    card = model_card(config, images(), preparation)
    assert card.input_shape == input_shape(images().inputs, preparation) == (3, 6, 6)
    assert (card.name, card.args, card.crop) == ("small_cnn", {"widths": [2, 2, 2]}, 6)
    assert card.class_names == ("a", "b")
    assert card.mean == preparation.normalize.mean


@pytest.mark.parametrize("channels_last", [False, True])
def test_sgd_steps_as_torchs_plain_one_does_however_weights_lie(channels_last):
    def weights_after(make):
        layers = torch.nn.Conv2d(3, 5, 3), torch.nn.Flatten(), torch.nn.Linear(80, 7)
        model = torch.nn.Sequential(*layers)
        with torch.no_grad():
            for number, weight in enumerate(model.parameters()):
                weight.copy_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(number)))
        if channels_last:
            model = model.to(memory_format=torch.channels_last)
        optimizer = make(model)
        for step in range(4):
            inputs = torch.randn(8, 3, 6, 6, generator=torch.Generator().manual_seed(step))
            optimizer.zero_grad()
            model(inputs).square().mean().backward()
            optimizer.step()
        return [weight.detach() for weight in model.parameters()]

    def ours(model):
        optimizer = build_optimizer(Optimizer(momentum=0.9, weight_decay=0.01), model)
        assert optimizer.param_groups[0]["fused"] is not channels_last
        optimizer.param_groups[0]["lr"] = 0.001
        return optimizer

    plain = weights_after(
        lambda model: torch.optim.SGD(
            model.parameters(), lr=0.001, momentum=0.9, weight_decay=0.01, fused=False
        )
    )
    for got, wanted in zip(weights_after(ours), plain, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-7)


def test_optimisers_are_as_asked_with_the_rate_left_to_the_phases():
    model = torch.nn.Linear(2, 2)
    sgd = build_optimizer(Optimizer(momentum=0.5, nesterov=True, weight_decay=0.01), model)
    assert isinstance(sgd, SGD)
    group = sgd.param_groups[0]
    assert (group["lr"], group["momentum"], group["nesterov"], group["weight_decay"]) == (
        0.0,
        0.5,
        True,
        0.01,
    )
    adamw = build_optimizer(Optimizer(name="adamw", weight_decay=0.1), model)
    assert isinstance(adamw, AdamW)
    assert (adamw.param_groups[0]["lr"], adamw.param_groups[0]["weight_decay"]) == (0.0, 0.1)


def test_a_function_may_build_the_network_by_seed(make_config):
    def own(shape, classes):
        return torch.nn.Linear(*shape, classes + extra)

    config, extra = make_config(store="dense"), 0
    prepared = prepare_examples(config.data, config.seed)
    first, again = (build_training(config, prepared, None, RUNTIME, make=own).model for _ in range(2))
    assert torch.equal(first.weight, again.weight)
    extra = 1
    with pytest.raises(
        ConfigError, match=r"module = 'own': .* returns \(1, 4\); change it to return logits \(1, 3\)"
    ):
        build_training(config, prepared, None, RUNTIME, make=own)


OWN = """
from torch import nn

def fine(num_classes, input_shape, width=4):
    return nn.Sequential(nn.Linear(*input_shape, width), nn.Dropout(0.5), nn.Linear(width, num_classes))

def wrong_classes(num_classes):
    return nn.Linear(6, 7)

def wrong_inputs(num_classes):
    return nn.Linear(5, num_classes)

def tuples(num_classes):
    return nn.LSTM(6, num_classes)

def broken(num_classes):
    raise ZeroDivisionError("oops")
"""


@pytest.fixture
def own(tmp_path, monkeypatch, network):
    (tmp_path / "own_model.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    yield lambda name, **args: network(model={"name": f"own_model:{name}", "args": args})
    sys.modules.pop("own_model", None)


def test_your_own_network_is_built_for_the_data(own):
    model = own("fine", width=9)
    assert (model[0].in_features, model[2].in_features, model[2].out_features) == (6, 9, 3)
    assert model.training


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("wrong_classes", r"for one input \(1, 6\) it returns \(1, 7\); change it to return logits \(1, 3\)"),
        ("tuples", r"it returns tuple; change it to return logits \(1, 3\)"),
        ("wrong_inputs", r"fails with RuntimeError: mat1 and mat2 shapes .*fix that code or its args"),
        ("broken", r"fails with ZeroDivisionError: oops \(in own_model.py, line 17\)"),
    ],
)
def test_a_network_that_does_not_suit_is_told_before_the_first_step(own, name, message):
    with pytest.raises(ConfigError, match=rf"model.name = 'own_model:{name}'.*{message}"):
        own(name)


def test_a_trained_network_is_as_it_was_saved(finished):
    model, preparation, card = trained_network(finished, RUNTIME)
    assert card.name == "linear"
    assert card.class_names == ("cat", "żółć", "cow, small")
    assert preparation.normalize.mean == card.mean
    assert model[1].weight.shape == (3, 6)
