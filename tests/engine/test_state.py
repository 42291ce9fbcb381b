"""A snapshot put back into a fresh training makes it the one that was saved, for any number of ranks."""

import pytest
import torch
from torch import nn

from pencil.algorithm import Pencil, three_phases
from pencil.engine import Checkpoints, LabelLearner, Runtime
from pencil.engine.row_files import RowSnapshot, read_rows
from pencil.engine.state import restore, snapshot
from pencil.methods import CrossEntropy

RUNTIME = Runtime(device=torch.device("cpu"))
LABELS = torch.tensor([0, 1, 2, 0, 1])


class Scaled(nn.Module):
    """Everything a state may hold: a scalar parameter, convolutions in another layout, running statistics."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.0))
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 3))

    def forward(self, images):
        return self.scale * self.body(images)


OPTIMIZERS = {
    "plain SGD": lambda weights: torch.optim.SGD(weights, lr=0.1),
    "momentum": lambda weights: torch.optim.SGD(weights, lr=0.1, momentum=0.9),
    "AdamW": lambda weights: torch.optim.AdamW(weights, lr=0.1),
}


def parts(optimizer, seed, method=None):
    torch.manual_seed(seed)
    model = Scaled().to(memory_format=torch.channels_last)
    phases = three_phases(0, 3, 0, learning_rate=0.1, finetune_rate=0.1)
    return (
        model,
        OPTIMIZERS[optimizer](model.parameters()),
        LabelLearner(method or Pencil(label_rate=4.0), LABELS, phases),
    )


def train(model, optimizer, learner, steps):
    """Draws random inputs from the global generator, as dropout would."""
    learner.epoch = 0.5  # within its phase
    for _ in range(steps):
        optimizer.zero_grad()
        learner.loss(model(torch.randn(5, 3, 4, 4)), torch.arange(5)).backward()
        optimizer.step()
        learner.step()


def taken(model, optimizer, learner, progress=None, rank=0):
    """A snapshot but for the rows."""
    return snapshot(model, optimizer, progress or {}, rank)


def save(folder, step, parts, progress=None):
    """By a rank that owns every row."""
    rows = RowSnapshot(parts[2].store.state())
    return Checkpoints(folder, RUNTIME).save(step, taken(*parts, progress), rows)


def put_back(folder, path, model, optimizer, learner, rank=0):
    read_rows(path, learner.store.state(), range(len(LABELS)))
    return restore(Checkpoints(folder, RUNTIME), path, model, optimizer, rank)


def tensors(*parts):
    rows = {f"rows/{name}": value for name, value in parts[2].store.state().items()}
    return {name: value.clone() for name, value in (taken(*parts) | rows).items()}


@pytest.mark.parametrize("method", [Pencil(label_rate=4.0), CrossEntropy()], ids=lambda method: method.name)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_restored_training_goes_on_exactly_as_the_saved_one(tmp_path, optimizer, method):
    one = parts(optimizer, 1, method)
    train(*one, steps=2)
    progress = {"step": 2, "tally": {"loss": 1 / 3}}
    path = save(tmp_path, 2, one, progress)
    train(*one, steps=2)
    other = parts(optimizer, 2, method)
    assert put_back(tmp_path, path, *other) == progress
    train(*other, steps=2)
    expected, found = tensors(*one), tensors(*other)
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        assert torch.equal(found[name], value), name


def test_restoring_keeps_the_parameters_and_their_layout(tmp_path):
    one, other = parts("momentum", 1), parts("momentum", 2)
    train(*one, steps=1)
    path = save(tmp_path, 1, one)
    weight = other[0].body[0].weight
    address = weight.data_ptr()
    put_back(tmp_path, path, *other)
    assert weight.data_ptr() == address
    assert weight.is_contiguous(memory_format=torch.channels_last)
    momentum = other[1].state[weight]["momentum_buffer"]
    assert momentum.stride() == weight.stride()
    assert torch.equal(momentum, one[1].state[one[0].body[0].weight]["momentum_buffer"])


def test_a_snapshot_names_what_it_holds():
    one = parts("AdamW", 1)
    train(*one, steps=1)
    names = tensors(*one).keys()
    assert {"model/scale", "model/body.1.running_mean", "model/body.1.num_batches_tracked"} <= names
    assert {"optimizer/scale/exp_avg", "optimizer/body.0.weight/step"} <= names
    assert {"random/0/cpu", "progress"} <= names


def test_taking_a_snapshot_changes_nothing(tmp_path):
    one = parts("momentum", 1)
    train(*one, steps=1)
    before = tensors(*one)
    save(tmp_path, 1, one, {"step": 1})
    after = tensors(*one)
    assert all(torch.equal(after[name], value) for name, value in before.items())


@pytest.mark.parametrize("rank", [0, 1, 11])
def test_each_rank_finds_its_own_random_state(tmp_path, rank):
    one = parts("plain SGD", 1)
    states = {}
    for number in (0, 1, 11):
        torch.manual_seed(100 + number)
        states |= taken(*one, rank=number)
    path = Checkpoints(tmp_path, RUNTIME).save(1, states, RowSnapshot(one[2].store.state()))
    torch.manual_seed(7)
    put_back(tmp_path, path, *one, rank=rank)
    found = torch.rand(3)
    torch.manual_seed(100 + rank)
    assert torch.equal(found, torch.rand(3))


def test_a_rank_that_the_saving_run_did_not_have_keeps_its_own_random_state(tmp_path):
    one = parts("plain SGD", 1)
    rows = RowSnapshot(one[2].store.state())
    path = Checkpoints(tmp_path, RUNTIME).save(1, taken(*one) | taken(*one, rank=10), rows)
    torch.manual_seed(42)
    before = torch.get_rng_state()
    put_back(tmp_path, path, *one, rank=1)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("optimizer", ["momentum", "AdamW"])
def test_a_new_rank_gets_weights_and_optimiser_as_every_rank_had_them(tmp_path, optimizer):
    one, other = parts(optimizer, 1), parts(optimizer, 2)
    train(*one, steps=3)
    path = save(tmp_path, 3, one)
    put_back(tmp_path, path, *other, rank=5)
    expected, found = (
        {name: value for name, value in tensors(*each).items() if name.startswith(("model/", "optimizer/"))}
        for each in (one, other)
    )
    assert len(expected) > 8
    assert expected.keys() == found.keys()
    assert all(torch.equal(found[name], value) for name, value in expected.items())


def test_what_the_optimiser_made_after_the_snapshot_goes_when_it_is_put_back(tmp_path):
    """Momentum would otherwise carry what was undone into the restored run."""
    model, optimizer, learner = parts("momentum", 1)
    train(model, optimizer, learner, 0)
    checkpoints = Checkpoints(tmp_path, RUNTIME)
    path = checkpoints.save(0, taken(model, optimizer, learner))
    train(model, optimizer, learner, 2)
    assert all("momentum_buffer" in state for state in optimizer.state.values())
    restore(checkpoints, path, model, optimizer)
    assert not any(optimizer.state.values())


def test_a_module_may_have_a_slash_in_its_name(tmp_path):
    """As some converters write them; torch forbids only a dot."""

    def with_slash(seed):
        model, _, learner = parts("momentum", seed)
        model.body.add_module("layer1/conv", nn.Linear(3, 3))
        return model, OPTIMIZERS["momentum"](model.parameters()), learner

    one, other = with_slash(1), with_slash(2)
    train(*one, steps=2)
    put_back(tmp_path, save(tmp_path, 2, one), *other)
    expected, found = tensors(*one), tensors(*other)
    assert "optimizer/body.layer1/conv.weight/momentum_buffer" in found
    assert all(torch.equal(found[name], value) for name, value in expected.items())
