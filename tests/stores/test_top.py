"""Records of a few bytes: what goes in comes out, to half precision."""

import pytest
import torch
from hypothesis import given as forall
from hypothesis import settings
from hypothesis import strategies as st

from pencil.algorithm import TopRows, cut
from pencil.errors import ConfigError
from pencil.stores import RowStore, TopStore


def some_rows(num_rows, num_classes, k, seed=0):
    generator = torch.Generator().manual_seed(seed)
    classes = torch.stack([torch.randperm(num_classes, generator=generator)[:k] for _ in range(num_rows)])
    values = torch.randn(num_rows, k, generator=generator).half().float()
    return TopRows(classes, values, torch.randn(num_rows, 1, generator=generator).half().float(), num_classes)


@settings(max_examples=40, deadline=None)
@forall(
    st.sampled_from(
        [(5, 2), (10, 3), (200, 8), (32_769, 4), (65_536, 8), (65_537, 8), (65_537, 3), (1 << 24, 5)]
    ),
    st.integers(0, 1000),
)
def test_what_is_written_is_read(shape, seed):
    num_classes, k = shape
    store: RowStore[TopRows] = TopStore(6, num_classes, k)
    if num_classes > 10**6:  # no permutation of so many for a test
        classes = torch.arange(num_classes - 4 * k, num_classes, 4).repeat(4, 1)
        rows = TopRows(classes, torch.ones(4, k), torch.zeros(4, 1), num_classes)
    else:
        rows = some_rows(4, num_classes, k, seed)
    where = torch.tensor([5, 0, 3, 2])
    store.scatter(where, rows)
    found = store.gather(where)
    assert torch.equal(found.classes, rows.classes)
    assert torch.equal(found.values, rows.values)
    assert torch.equal(found.rest, rows.rest)
    assert found.num_classes == num_classes
    assert torch.equal(store.gather(torch.tensor([1, 4])).values, torch.zeros(2, k))


@pytest.mark.parametrize(("classes", "size"), [(18_291, 34), (65_536, 34), (65_537, 42), (1_000_000, 42)])
def test_a_row_of_eight_entries_takes_at_most_48_bytes(classes, size):
    store = TopStore(3, classes, 8)
    assert store.bytes_per_row == size <= 48
    assert sum(value.numel() * value.itemsize for value in store.state().values()) == 3 * size
    assert store.row_width == 9


def test_entries_are_rounded_to_half_precision_and_never_infinite():
    store = TopStore(1, 9, 2)
    store.scatter(
        torch.tensor([0]),
        TopRows(torch.tensor([[3, 4]]), torch.tensor([[1e9, 0.1]]), torch.tensor([[-1e9]]), 9),
    )
    found = store.gather(torch.tensor([0]))
    assert torch.isfinite(found.dense()).all()
    assert found.values[0, 1] == torch.tensor(0.1).half().float()


def test_rows_in_a_file_are_as_rows_in_memory_and_leave_nothing(tmp_path):
    inside, outside = TopStore(50, 30, 4), TopStore(50, 30, 4, tmp_path / "made")
    rows = torch.randperm(50, generator=torch.Generator().manual_seed(0))[:20]
    values = cut(torch.randn(20, 30, generator=torch.Generator().manual_seed(1)), 4)
    for store in (inside, outside):
        store.scatter(rows, values)
    assert torch.equal(inside.state()["top"], outside.state()["top"])
    assert list((tmp_path / "made").iterdir()) == []


def test_its_state_is_the_store_itself():
    store, other = TopStore(4, 9, 2), TopStore(4, 9, 2)
    store.scatter(torch.arange(4), some_rows(4, 9, 2))
    other.state()["top"].copy_(store.state()["top"])
    assert torch.equal(other.gather(torch.arange(4)).dense(), store.gather(torch.arange(4)).dense())


@pytest.mark.parametrize(("classes", "k"), [(8, 8), (8, 9), (8, 0), ((1 << 24) + 1, 8)])
def test_what_cannot_be_kept_is_refused(classes, k):
    with pytest.raises(ConfigError, match=rf"store: 'top:{k}' for {classes} classes.*use 'dense'"):
        TopStore(2, classes, k)
