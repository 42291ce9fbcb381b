"""Batches with their row numbers, in order, whoever fetches them."""

import pytest
import torch
from torch.utils.data import TensorDataset

from pencil.data.examples import DatasetInputs, SubsetInputs, TensorInputs
from pencil.data.loader import fetch_batches
from pencil.data.sampler import EpochSampler

VALUES = torch.arange(60, dtype=torch.uint8).view(20, 3)


def batches():
    return list(EpochSampler(20, 6, seed=3).batches(0))


class Broken:
    def __len__(self):
        return 20

    def fetch(self, rows):
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
