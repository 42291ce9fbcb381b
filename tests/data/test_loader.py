"""Batches with their row numbers, in order, whoever fetches them."""

import os
from collections import Counter

import pytest
import torch
from torch.utils.data import TensorDataset

from pencil.data.inputs import DatasetInputs, SubsetInputs, TensorInputs
from pencil.data.loader import fetch_batches
from pencil.data.order import Blocks, Order
from pencil.data.sampler import EpochSampler
from pencil.errors import DataError

VALUES = torch.arange(60, dtype=torch.uint8).view(20, 3)


def batches():
    return list(EpochSampler(20, 6, seed=3).batches(0))


class Broken:
    def __len__(self):
        return 20

    def fetch(self, indices):
        raise OSError("no such picture")


def test_batches_come_in_order_with_their_rows():
    fetched = list(fetch_batches(TensorInputs(VALUES), batches()))
    assert len(fetched) == 4
    for (values, rows), asked in zip(fetched, batches(), strict=True):
        assert torch.equal(rows, asked)
        assert torch.equal(values, VALUES[asked])


@pytest.mark.parametrize(
    "inputs",
    [
        TensorInputs(VALUES),
        DatasetInputs(TensorDataset(VALUES)),
        SubsetInputs(DatasetInputs(TensorDataset(VALUES)), torch.arange(19, -1, -1)),
    ],
    ids=["tensor", "dataset", "subset"],
)
def test_workers_give_the_same_batches(inputs):
    alone = list(fetch_batches(inputs, batches()))
    helped = list(fetch_batches(inputs, batches(), workers=2))
    assert len(helped) == len(alone)
    for (values, rows), (expected, numbers) in zip(helped, alone, strict=True):
        assert torch.equal(values, expected)
        assert torch.equal(rows, numbers)
        assert (values.dtype, rows.dtype) == (expected.dtype, numbers.dtype)


def test_without_workers_nothing_is_fetched_before_it_is_asked_for():
    stream = fetch_batches(Broken(), batches())
    with pytest.raises(OSError, match="no such picture"):
        next(stream)


# shards


class Sharded:
    """Rows of 7 in 20 shards; every fetch leaves a line: process, shard."""

    def __init__(self, log):
        self.log = log
        self.blocks = Blocks.of_sizes(torch.full((20,), 7))

    def __len__(self):
        return 140

    def fetch(self, indices):
        with self.log.open("a") as log:
            log.writelines(f"{os.getpid()} {shard}\n" for shard in self.blocks.of(indices).unique().tolist())
        return indices[:, None].float() * 2


def shard_batches(inputs, start=0):
    order = Order(len(inputs), inputs.blocks)
    sampler = EpochSampler(140, 12, seed=5, blocks=order.placed, window=4)
    rows = order.owned_indices()
    return [rows[batch] for batch in sampler.batches(0, start)]


@pytest.mark.filterwarnings("ignore:This DataLoader will create 3 worker")
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_each_shard_is_read_by_one_worker_and_batches_stay_as_they_are(tmp_path, workers):
    inputs = Sharded(tmp_path / "log")
    fetched = list(fetch_batches(inputs, iter(shard_batches(inputs)), workers=workers))
    for (values, rows), asked in zip(fetched, shard_batches(inputs), strict=True):
        assert torch.equal(rows, asked)
        assert torch.equal(values, asked[:, None].float() * 2)
    lines = set((tmp_path / "log").read_text().splitlines())
    readers = [line.split() for line in lines]
    assert len(lines) == 20  # one process for each shard
    shares = Counter(process for process, _ in readers)
    assert str(os.getpid()) not in shares
    assert len(shares) == workers
    assert max(shares.values()) - min(shares.values()) <= 1


def test_a_view_of_shards_is_divided_among_workers_by_the_shards_it_shows(tmp_path):
    inputs = Sharded(tmp_path / "log")
    rows = torch.arange(0, 140, 3)
    fetched = list(fetch_batches(SubsetInputs(inputs, rows), torch.arange(47).split(9), workers=2))
    assert torch.equal(torch.cat([values for values, _ in fetched]), rows[:, None].float() * 2)
    readers = {tuple(line.split()) for line in (tmp_path / "log").read_text().splitlines()}
    assert len(readers) == len({shard for _, shard in readers}) == 20


def test_without_workers_shards_are_read_here(tmp_path):
    inputs = Sharded(tmp_path / "log")
    fetched = list(fetch_batches(inputs, shard_batches(inputs)))
    assert sum(len(rows) for _, rows in fetched) == 140
    assert {line.split()[0] for line in (tmp_path / "log").read_text().splitlines()} == {str(os.getpid())}


class Damaged(Sharded):
    def fetch(self, indices):
        raise DataError("shard-3.tar, sample 7: cut off")


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_a_mistake_found_by_a_worker_is_told_in_its_own_words(tmp_path, workers):
    inputs = Damaged(tmp_path / "log")
    with pytest.raises(DataError, match=r"^shard-3\.tar, sample 7: cut off$"):
        next(fetch_batches(inputs, shard_batches(inputs), workers=workers))
