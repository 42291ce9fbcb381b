"""A snapshot put back into a fresh training makes it the one that was saved, for any number of ranks."""

import tempfile
from pathlib import Path
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from pencil.algorithm import Pencil, three_phases
from pencil.data import span
from pencil.engine import Checkpoints, LabelLearner, Runtime, state
from pencil.engine.state import restore, snapshot
from pencil.methods import CrossEntropy
from pencil.stores import DenseStore

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
    for _ in range(steps):
        optimizer.zero_grad()
        learner.loss(model(torch.randn(5, 3, 4, 4)), torch.arange(5)).backward()
        optimizer.step()
        learner.step()


ALL = range(len(LABELS))


def taken(model, optimizer, learner, progress=None, rank=0):
    """A snapshot by a rank that owns every row."""
    return snapshot(model, optimizer, learner.store, ALL, progress or {}, rank)


def put_back(folder, path, model, optimizer, learner, rank=0):
    return restore(Checkpoints(folder, RUNTIME), path, model, optimizer, learner.store, ALL, rank)


def tensors(*parts):
    return {name: value.clone() for name, value in taken(*parts).items()}


@pytest.mark.parametrize("method", [Pencil(label_rate=4.0), CrossEntropy()], ids=lambda method: method.name)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_restored_training_goes_on_exactly_as_the_saved_one(tmp_path, optimizer, method):
    one = parts(optimizer, 1, method)
    train(*one, steps=2)
    progress = {"step": 2, "tally": {"loss": 1 / 3}}
    path = Checkpoints(tmp_path, RUNTIME).save(2, taken(*one, progress))
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
    path = Checkpoints(tmp_path, RUNTIME).save(1, taken(*one))
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
    assert {"rows/values/000000000000", "random/0/cpu", "progress"} <= names


def test_taking_a_snapshot_changes_nothing(tmp_path):
    one = parts("momentum", 1)
    train(*one, steps=1)
    before = tensors(*one)
    Checkpoints(tmp_path, RUNTIME).save(1, taken(*one, {"step": 1}))
    after = tensors(*one)
    assert all(torch.equal(after[name], value) for name, value in before.items())


def rows_of_rank(num_rows, rank, world_size, width=3):
    """A store that holds, at each position, numbers that tell which one it is."""
    owned = span(num_rows, rank, world_size)
    store = DenseStore(len(owned), width)
    positions = torch.arange(owned.start, owned.stop)
    store.scatter(torch.arange(len(owned)), positions[:, None] + torch.arange(width) / 8)
    return store, owned


def saved_by(num_rows, world_size, width=3):
    """What all ranks of a run save together, as DCP unites it."""
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return {
        name: value
        for rank in range(world_size)
        for name, value in snapshot(
            model, optimizer, *rows_of_rank(num_rows, rank, world_size, width), {"step": 5}, rank
        ).items()
    }


@settings(max_examples=60, deadline=None)
@given(
    num_rows=st.integers(8, 120),
    saving=st.integers(1, 8),
    restoring=st.integers(1, 8),
    piece=st.sampled_from([1, 7, 20, 1 << 20]),
    width=st.sampled_from([0, 1, 3]),
)
def test_rows_saved_by_some_ranks_are_restored_by_any_others(num_rows, saving, restoring, piece, width):
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(state, "PIECE", piece):
        checkpoints = Checkpoints(Path(folder), RUNTIME)
        path = checkpoints.save(5, saved_by(num_rows, saving, width))
        for rank in range(restoring):
            expected, owned = rows_of_rank(num_rows, rank, restoring, width)
            store = DenseStore(len(owned), width)
            store.state()["values"].fill_(-1)
            model = nn.Linear(2, 2)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            assert restore(checkpoints, path, model, optimizer, store, owned, rank) == {"step": 5}
            assert torch.equal(store.state()["values"], expected.state()["values"])


@settings(max_examples=60, deadline=None)
@given(num_rows=st.integers(1, 200), world_size=st.integers(1, 8), piece=st.integers(1, 40))
def test_pieces_hold_every_row_once_under_the_name_of_its_position(num_rows, world_size, piece):
    with mock.patch.object(state, "PIECE", piece):
        saved = saved_by(num_rows, world_size)
    found = [name for name in sorted(saved) if name.startswith("rows/")]
    assert torch.cat([saved[name][:, 0] for name in found]).tolist() == list(range(num_rows))
    assert [int(name.rsplit("/", 1)[1]) for name in found] == [int(saved[name][0, 0]) for name in found]
    assert max(len(saved[name]) for name in found) <= piece


def test_pieces_are_loaded_straight_into_a_store_that_owns_them_whole():
    """No second copy of a large table: only a piece cut by an edge is loaded aside."""
    store, owned = rows_of_rank(30, 1, 3)
    pieces = {f"rows/values/{start:012d}": torch.empty(6, 3) for start in range(0, 30, 6)}
    targets, edges = state._row_targets(store, owned, pieces)
    assert [int(name.rsplit("/", 1)[1]) for name in targets] == [6, 12, 18]
    assert targets["rows/values/000000000012"].data_ptr() == store.state()["values"][2].data_ptr()
    assert [(edge.part.start, edge.part.stop) for edge in edges] == [(4, 6), (0, 2)]


@pytest.mark.parametrize("rank", [0, 1, 11])
def test_each_rank_finds_its_own_random_state(tmp_path, rank):
    one = parts("plain SGD", 1)
    states = {}
    for number in (0, 1, 11):
        torch.manual_seed(100 + number)
        states |= taken(*one, rank=number)
    path = Checkpoints(tmp_path, RUNTIME).save(1, states)
    torch.manual_seed(7)
    put_back(tmp_path, path, *one, rank=rank)
    found = torch.rand(3)
    torch.manual_seed(100 + rank)
    assert torch.equal(found, torch.rand(3))


def test_a_rank_that_the_saving_run_did_not_have_keeps_its_own_random_state(tmp_path):
    one = parts("plain SGD", 1)
    path = Checkpoints(tmp_path, RUNTIME).save(1, taken(*one) | taken(*one, rank=10))
    torch.manual_seed(42)
    before = torch.get_rng_state()
    put_back(tmp_path, path, *one, rank=1)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("optimizer", ["momentum", "AdamW"])
def test_a_new_rank_gets_weights_and_optimiser_as_every_rank_had_them(tmp_path, optimizer):
    one, other = parts(optimizer, 1), parts(optimizer, 2)
    train(*one, steps=3)
    path = Checkpoints(tmp_path, RUNTIME).save(3, taken(*one))
    put_back(tmp_path, path, *other, rank=5)
    expected, found = (
        {name: value for name, value in tensors(*each).items() if name.startswith(("model/", "optimizer/"))}
        for each in (one, other)
    )
    assert len(expected) > 8
    assert expected.keys() == found.keys()
    assert all(torch.equal(found[name], value) for name, value in expected.items())
