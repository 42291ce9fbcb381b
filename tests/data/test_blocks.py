"""Blocks: rows that lie together, through views, samples and the order of ranks."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pencil.data.inputs import SubsetInputs, TensorInputs, blocks_of
from pencil.data.order import SPREAD, Blocks, Order, owned_indices, span

quick = settings(max_examples=60, deadline=None)
SIZES = st.lists(st.integers(0, 9), min_size=1, max_size=40).filter(any)


class Sharded(TensorInputs):
    def __init__(self, sizes):
        super().__init__(torch.arange(sum(sizes)))
        object.__setattr__(self, "blocks", Blocks.of_sizes(torch.tensor(sizes)))


def members(blocks):
    """The rows of every block, by definition."""
    return [
        list(range(start, end))
        for start, end in zip(blocks.starts.tolist(), blocks.ends.tolist(), strict=True)
    ]


@quick
@given(sizes=SIZES)
def test_every_row_is_in_the_block_that_counts_it(sizes):
    blocks = Blocks.of_sizes(torch.tensor(sizes))
    expected = [block for block, size in enumerate(sizes) for _ in range(size)]
    assert blocks.of(torch.arange(sum(sizes))).tolist() == expected
    assert [len(rows) for rows in members(blocks)] == sizes


@quick
@given(sizes=SIZES, data=st.data())
def test_a_view_of_a_view_knows_the_shards_of_its_rows(sizes, data):
    base = Sharded(sizes)
    first = SubsetInputs(
        base, torch.tensor(sorted(data.draw(st.sets(st.integers(0, len(base) - 1), min_size=1))))
    )
    second = SubsetInputs(first, torch.tensor(data.draw(st.permutations(range(len(first))))))
    for view in (first, second):
        rows = torch.arange(len(view))
        expected = base.blocks.of(view.fetch(rows))
        assert blocks_of(view).sources_of(rows).tolist() == expected.tolist()
    assert blocks_of(first).sizes.gt(0).all()
    assert blocks_of(first).sources.diff().gt(0).all()  # sorted rows: each shard once


def test_inputs_without_blocks_have_none_and_neither_have_their_views():
    inputs = TensorInputs(torch.arange(6))
    assert blocks_of(inputs) is None
    assert blocks_of(SubsetInputs(inputs, torch.tensor([1, 2]))) is None


@quick
@given(sizes=SIZES, world_size=st.integers(1, 7))
def test_ranks_own_whole_shards_but_for_the_two_at_their_ends(sizes, world_size):
    blocks = Blocks.of_sizes(torch.tensor(sizes))
    order = Order(sum(sizes), blocks)
    parts = [order.owned_indices(rank, world_size) for rank in range(world_size)]
    assert torch.equal(torch.cat(parts), order.owned_indices())
    assert sorted(torch.cat(parts).tolist()) == list(range(sum(sizes)))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    whole = [set(rows) for rows in members(blocks)]
    for part in parts:
        touched, counts = torch.unique_consecutive(blocks.of(part), return_counts=True)
        assert len(set(touched.tolist())) == len(touched)  # a shard's rows are consecutive
        cut = [
            block
            for block, count in zip(touched.tolist(), counts.tolist(), strict=True)
            if count < sizes[block]
        ]
        assert set(cut) <= {*touched[:1].tolist(), *touched[-1:].tolist()}
        assert all(whole[block] <= set(part.tolist()) for block in touched.tolist() if block not in cut)


@quick
@given(sizes=SIZES, world_size=st.integers(1, 7))
def test_positions_in_the_order_are_divided_as_the_shards_that_stand_there(sizes, world_size):
    blocks = Blocks.of_sizes(torch.tensor(sizes))
    order = Order(sum(sizes), blocks)
    positions = torch.arange(sum(sizes))
    assert torch.equal(order.placed.sources_of(positions), blocks.of(order.indices_at(positions)))
    mine = span(sum(sizes), world_size - 1, world_size)
    assert torch.equal(
        order.indices_at(positions[mine.start : mine.stop]), order.owned_indices(world_size - 1, world_size)
    )


@quick
@given(num_rows=st.integers(1, 500), world_size=st.integers(1, 7))
def test_rows_alone_in_their_blocks_stand_as_rows_without_blocks(num_rows, world_size):
    single = Order(num_rows, Blocks.of_sizes(torch.ones(num_rows, dtype=torch.int64)))
    for rank in range(world_size):
        assert torch.equal(single.owned_indices(rank, world_size), owned_indices(num_rows, rank, world_size))


def test_class_sorted_shards_spread_over_the_ranks():
    """1,000 shards, the first hundred of class 0 and so on: every one of eight ranks gets a tenth of each."""
    order = Order(25_000, Blocks.of_sizes(torch.full((1000,), 25)))
    for rank in range(8):
        shares = torch.bincount(order.owned_indices(rank, 8) // 2500, minlength=10)
        assert shares.min() >= 250
        assert shares.max() <= 375


def test_a_sample_is_seeded_sorted_and_comes_from_few_but_enough_shards():
    blocks = Blocks.of_sizes(torch.full((1000,), 500))
    rows, again = (blocks.sample(2000, torch.Generator().manual_seed(1)) for _ in range(2))
    assert torch.equal(rows, again)
    assert rows.diff().gt(0).all()
    assert len(blocks.of(rows).unique()) == SPREAD
    assert 2000 <= len(rows) < 2000 + SPREAD
    wide = blocks.sample(100_000, torch.Generator().manual_seed(1))
    assert len(blocks.of(wide).unique()) == 200


def test_a_sample_of_uneven_shards_takes_what_each_has():
    blocks = Blocks.of_sizes(torch.tensor([0, 3, 100]))
    rows = blocks.sample(30, torch.Generator().manual_seed(0))
    assert rows.tolist()[:3] == [0, 1, 2]
    assert len(rows) == 13
