"""Accuracy is the share of right predictions, by any batch size, and looking changes nothing."""

import pytest
import torch
from torch import nn

from pencil.data import Normalize, Preparation
from pencil.engine import Runtime, accuracy, predictions

RUNTIME = Runtime(device=torch.device("cpu"))
PREPARATION = Preparation(device=RUNTIME.device, normalize=Normalize((0.5,), (2.0,)))


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(20, 16), nn.BatchNorm1d(16), nn.Dropout(0.5), nn.Linear(16, 10))


def naive_accuracy(model, examples):
    model.eval()
    right = 0
    with torch.no_grad():
        for row in range(len(examples)):
            inputs = (examples.inputs.fetch(torch.tensor([row])) - 0.5) / 2
            right += int(model(inputs).argmax()) == int(examples.labels.hard[row])
    return right / len(examples)


def test_accuracy_is_that_of_a_naive_loop(blobs, model):
    expected = naive_accuracy(model, blobs.test)
    assert 0 < expected < 1
    assert accuracy(model, blobs.test, PREPARATION, RUNTIME) == expected


def test_batches_do_not_matter(blobs, model, monkeypatch):
    whole = accuracy(model, blobs.test, PREPARATION, RUNTIME)
    monkeypatch.setattr("pencil.engine.evaluate.BATCH", 7)
    assert accuracy(model, blobs.test, PREPARATION, RUNTIME) == whole


def test_a_second_look_sees_the_same_and_draws_no_random_numbers(blobs, model):
    state = torch.get_rng_state()
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    rows = torch.arange(len(blobs.test))
    first, second = (
        torch.cat([probs for _, probs in predictions(model, blobs.test.inputs, rows, PREPARATION, RUNTIME)])
        for _ in range(2)
    )
    assert torch.equal(first, second)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())


def test_predictions_are_probabilities_of_the_rows_asked_for_in_their_order(blobs, model):
    rows = torch.tensor([5, 3, 599, 0])
    [(batch, probs)] = predictions(model, blobs.test.inputs, rows, PREPARATION, RUNTIME)
    assert torch.equal(batch, rows)
    torch.testing.assert_close(probs.sum(dim=1), torch.ones(4))
    model.eval()
    inputs = (blobs.test.inputs.fetch(rows) - 0.5) / 2
    torch.testing.assert_close(probs, model(inputs).softmax(dim=1).detach())


@pytest.mark.parametrize("training", [True, False])
def test_the_network_is_left_in_the_mode_it_was_in(blobs, model, training):
    model.train(training)
    accuracy(model, blobs.test, PREPARATION, RUNTIME)
    assert all(module.training is training for module in model.modules())


def test_layers_frozen_in_a_mode_of_their_own_stay_frozen(blobs, model):
    model.train()
    model[1].eval()
    modes = [module.training for module in model.modules()]
    accuracy(model, blobs.test, PREPARATION, RUNTIME)
    assert [module.training for module in model.modules()] == modes


def test_the_mode_comes_back_when_the_network_fails(blobs):
    model = nn.Linear(3, 10).train()
    with pytest.raises(RuntimeError):
        accuracy(model, blobs.test, PREPARATION, RUNTIME)
    assert model.training


def test_bf16_predictions_are_float32_probabilities(blobs, model):
    runtime = Runtime(device=torch.device("cpu"), precision="bf16")
    [(_, probs)] = predictions(model, blobs.test.inputs, torch.arange(8), PREPARATION, runtime)
    assert probs.dtype == torch.float32
    torch.testing.assert_close(probs.sum(dim=1), torch.ones(8))


def test_no_rows_are_no_predictions(blobs, model):
    none = predictions(model, blobs.test.inputs, torch.arange(0), PREPARATION, RUNTIME)
    assert list(none) == []
