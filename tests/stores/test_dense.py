"""The dense store: what is written is read, and nothing else moves."""

import os

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pencil.errors import RunError
from pencil.stores import DenseStore, RowStore


def filled(num_rows=5, row_width=3):
    store: RowStore = DenseStore(num_rows, row_width)
    values = torch.arange(float(num_rows * row_width)).reshape(num_rows, row_width)
    store.scatter(torch.arange(num_rows), values)
    return store, values


def test_rows_start_at_zero_in_float32():
    store = DenseStore(4, 2)
    assert (store.num_rows, store.row_width) == (4, 2)
    assert torch.equal(store.gather(torch.arange(4)), torch.zeros(4, 2))
    assert store.gather(torch.arange(4)).dtype == torch.float32


@settings(max_examples=30, deadline=None)
@given(
    order=st.permutations(range(8)), count=st.integers(0, 8), width=st.integers(0, 4), seed=st.integers(0, 99)
)
def test_gather_returns_what_scatter_wrote_and_other_rows_keep_their_values(order, count, width, seed):
    store, reference = filled(8, width)
    rows = torch.tensor(order[:count], dtype=torch.long)
    values = torch.randn(count, width, generator=torch.Generator().manual_seed(seed))
    store.scatter(rows, values)
    reference[rows] = values
    assert torch.equal(store.gather(rows), values)
    assert torch.equal(store.gather(torch.arange(8)), reference)


def test_gathered_rows_are_a_copy():
    store, values = filled()
    store.gather(torch.tensor([0, 1])).fill_(99.0)
    assert torch.equal(store.gather(torch.arange(5)), values)


def test_a_row_may_be_gathered_twice():
    store, values = filled()
    assert torch.equal(store.gather(torch.tensor([2, 2])), values[[2, 2]])


def test_wider_values_are_kept_as_float32():
    store, _ = filled()
    store.scatter(torch.tensor([0]), torch.full((1, 3), 0.1, dtype=torch.float64))
    assert torch.equal(store.gather(torch.tensor([0])), torch.full((1, 3), 0.1))


def test_state_is_the_store_itself():
    store, values = filled()
    restored = DenseStore(5, 3)
    restored.state()["values"].copy_(store.state()["values"])
    assert torch.equal(restored.gather(torch.arange(5)), values)
    store.scatter(torch.tensor([4]), torch.zeros(1, 3))
    assert torch.equal(store.state()["values"][4], torch.zeros(3))
    assert list(store.state()) == ["values"]


def test_the_store_does_not_keep_the_graph_of_what_is_written():
    store = DenseStore(2, 3)
    store.scatter(torch.tensor([0]), 2 * torch.ones(1, 3, requires_grad=True))
    assert not store.state()["values"].requires_grad


def test_rows_are_scattered_by_the_numbers_they_are_gathered_by():
    store, rows = DenseStore(2, 3), torch.tensor([1], dtype=torch.int32)
    store.scatter(rows, store.gather(rows) + 1)
    assert torch.equal(store.gather(rows), torch.ones(1, 3))


def test_a_mapped_store_without_room_is_refused_before_anybody_writes_to_it(tmp_path, limited):
    """Writing to a mapped file on a full disk would end the process by a signal."""
    told = r"run: no room for 80,000 bytes of label rows \(File too large\); make room there, or set store"
    with limited("RLIMIT_FSIZE", 79_999), pytest.raises(RunError, match=told):
        DenseStore(10_000, 2, tmp_path / "run")
    assert list((tmp_path / "run").iterdir()) == []


def test_a_mapped_store_has_its_space_from_the_beginning(tmp_path, monkeypatch):
    taken = []
    allocate = os.posix_fallocate
    monkeypatch.setattr(os, "posix_fallocate", lambda *words: (taken.append(words[1:]), allocate(*words)))
    assert DenseStore(10_000, 2, tmp_path).gather(torch.arange(10_000)).sum() == 0
    assert taken == [(0, 80_000)]
