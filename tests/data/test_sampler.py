"""Batches by rank: every row once an epoch, whoever takes its steps, alike in size, with nothing to remember."""

import itertools
import time
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pencil.data.order import Blocks, Order, owned_indices
from pencil.data.sampler import EpochSampler, Stretch
from pencil.errors import DataError

pytestmark = [pytest.mark.slow, pytest.mark.no_cover]  # thousands of plans: five times as slow when measured

quick = settings(max_examples=60, deadline=None)
EPOCHS = st.integers(0, 400)
SEEDS = st.integers(0, 2**63 - 1)


def feeds_all(num_rows, batch_size, world_size):
    """Whether every rank has a row for every step."""
    return num_rows // world_size >= -(-num_rows // batch_size)


@st.composite
def plans(draw):
    """Rows, a batch size, a seed and ranks such that every rank has a part of every batch."""
    world_size = draw(st.integers(1, 6))
    num_rows = draw(st.integers(world_size, 300))
    fitting = [size for size in range(1, 71) if feeds_all(num_rows, size, world_size)]
    batch_size = draw(st.sampled_from(fitting or [num_rows]))
    return num_rows, batch_size, draw(SEEDS), world_size


@st.composite
def relays(draw):
    """A plan, and who takes an epoch's steps: ((ranks, the step they begin at), ...), the first from step 0 on."""
    num_rows, batch_size, *_ = plan = draw(plans())
    steps = -(-num_rows // batch_size)
    starts = sorted(draw(st.sets(st.integers(1, max(steps - 1, 1)), max_size=4))) if steps > 1 else []
    fitting = [size for size in range(1, 7) if feeds_all(num_rows, batch_size, size)]
    return plan, [(draw(st.sampled_from(fitting)), start) for start in (0, *starts)]


def samplers(plan):
    num_rows, batch_size, seed, world_size = plan
    return [EpochSampler(num_rows, batch_size, seed, rank, world_size) for rank in range(world_size)]


def legs_of(relay):
    """For each who takes over: its ranks' samplers, its first step, the step after its last, the stretches before."""
    plan, legs = relay
    ends = [start for _, start in legs[1:]] + [samplers(plan)[0].steps]
    stretches = tuple(Stretch(size, end) for (size, _), end in zip(legs, ends, strict=True))
    for index, ((size, start), end) in enumerate(zip(legs, ends, strict=True)):
        yield samplers((*plan[:3], size)), start, end, stretches[:index]


def batches_of(ranks, epoch, start, end, earlier):
    """For each step, every rank's batch of rows."""
    each = [sampler.batches(epoch, start, earlier) for sampler in ranks]
    for _ in range(start, end):
        yield [
            owned_indices(sampler.num_rows, sampler.rank, sampler.world_size)[next(batches)]
            for sampler, batches in zip(ranks, each, strict=True)
        ]


@quick
@given(plan=plans(), epoch=EPOCHS)
def test_an_epoch_visits_every_row_of_all_ranks_exactly_once(plan, epoch):
    seen = []
    for sampler in samplers(plan):
        owned = owned_indices(sampler.num_rows, sampler.rank, sampler.world_size)
        local = torch.cat(list(sampler.batches(epoch)))
        assert sorted(local.tolist()) == list(range(len(owned)))
        seen += owned[local].tolist()
    assert sorted(seen) == list(range(plan[0]))


@settings(max_examples=150, deadline=None)
@given(relay=relays(), epoch=EPOCHS)
def test_whoever_takes_over_wherever_an_epoch_visits_every_row_exactly_once(relay, epoch):
    seen = [
        batch
        for ranks, start, end, earlier in legs_of(relay)
        for batches in batches_of(ranks, epoch, start, end, earlier)
        for batch in batches
    ]
    assert sorted(torch.cat(seen).tolist()) == list(range(relay[0][0]))


@settings(max_examples=150, deadline=None)
@given(relay=relays(), epoch=EPOCHS)
def test_all_ranks_know_the_size_of_every_global_batch_and_none_is_empty(relay, epoch):
    for ranks, start, end, earlier in legs_of(relay):
        for step, batches in enumerate(batches_of(ranks, epoch, start, end, earlier), start):
            sizes = {sampler.global_size(epoch, step, earlier) for sampler in ranks}
            assert sizes == {sum(map(len, batches))}
            assert min(sizes) >= 1


@settings(max_examples=150, deadline=None)
@given(relay=relays(), epoch=EPOCHS)
def test_a_global_batch_exceeds_the_one_asked_for_by_less_than_the_ranks_that_cut_it(relay, epoch):
    cutters = 0
    for ranks, start, end, earlier in legs_of(relay):
        cutters += len(ranks)
        for step in range(start, end):
            assert ranks[0].global_size(epoch, step, earlier) < ranks[0].batch_size + cutters


@quick
@given(relay=relays(), epoch=EPOCHS)
def test_starting_at_a_step_is_skipping_the_ones_before(relay, epoch):
    *_, (ranks, start, end, earlier) = legs_of(relay)
    whole = list(batches_of(ranks, epoch, start, end, earlier))
    for later in range(start, end):
        rest = list(batches_of(ranks, epoch, later, end, earlier))
        assert [[each.tolist() for each in step] for step in rest] == [
            [each.tolist() for each in step] for step in whole[later - start :]
        ]


@quick
@given(plan=plans(), epoch=EPOCHS)
def test_all_ranks_take_equally_many_steps_and_never_an_empty_one(plan, epoch):
    num_rows, batch_size, _, _ = plan
    sizes = [[len(batch) for batch in sampler.batches(epoch)] for sampler in samplers(plan)]
    assert {len(each) for each in sizes} == {-(-num_rows // batch_size)}
    assert min(map(min, sizes)) >= 1


@quick
@given(plan=plans(), epoch=EPOCHS)
def test_batches_of_a_rank_differ_in_size_by_at_most_one(plan, epoch):
    for sampler in samplers(plan):
        sizes = [len(batch) for batch in sampler.batches(epoch)]
        assert max(sizes) - min(sizes) <= 1


@quick
@given(num_rows=st.integers(1, 300), batch_size=st.integers(1, 70))
def test_alone_no_batch_is_larger_than_asked_for_and_no_step_too_many(num_rows, batch_size):
    sampler = EpochSampler(num_rows, batch_size)
    assert max(len(batch) for batch in sampler.batches(0)) <= batch_size
    assert sampler.steps == -(-num_rows // batch_size)


@quick
@given(num_rows=st.integers(1, 300), batch_size=st.integers(1, 70), world_size=st.integers(1, 8))
def test_the_number_of_ranks_changes_no_number_of_steps_or_is_refused(num_rows, batch_size, world_size):
    if feeds_all(num_rows, batch_size, world_size):
        assert (
            EpochSampler(num_rows, batch_size, 0, 0, world_size).steps
            == EpochSampler(num_rows, batch_size).steps
        )
    else:
        with pytest.raises(
            DataError, match=f"leave some of {world_size} ranks without rows in a step; use fewer"
        ):
            EpochSampler(num_rows, batch_size, 0, 0, world_size)


def test_five_rows_on_four_ranks_are_refused_where_a_second_step_would_be_empty_on_three():
    with pytest.raises(DataError, match=r"^5 rows in batches of 4 leave some of 4 ranks"):
        EpochSampler(5, 4, 0, 3, 4)
    assert [len(batch) for batch in EpochSampler(5, 5, 0, 3, 4).batches(0)] == [2]


@quick
@given(world_size=st.integers(1, 6), share=st.integers(1, 20), per_rank=st.integers(1, 50), epoch=EPOCHS)
def test_where_ranks_divide_rows_and_batch_no_batch_is_larger_than_asked_for(
    world_size, share, per_rank, epoch
):
    sampler = EpochSampler(per_rank * world_size, share * world_size, 0, 0, world_size)
    assert max(sampler.global_size(epoch, step) for step in range(sampler.steps)) <= sampler.batch_size


@quick
@given(seed=SEEDS, epoch=EPOCHS)
def test_successive_epochs_differ(seed, epoch):
    sampler = EpochSampler(100, 100, seed)
    [one], [other] = sampler.batches(epoch), sampler.batches(epoch + 1)
    assert not torch.equal(one, other)


def test_epochs_seeds_ranks_and_their_number_choose_the_order():
    orders = [
        EpochSampler(400, 400, seed, rank, world_size).batches(epoch)
        for seed, rank, world_size, epoch in [
            *((0, 0, 2, 0), (0, 0, 2, 1), (0, 1, 2, 0)),
            *((1, 0, 2, 0), (0, 0, 1, 0), (0, 0, 4, 0)),
        ]
    ]
    assert len({tuple(next(order)[:50].tolist()) for order in orders}) == 6


@quick
@given(relay=relays(), epoch=EPOCHS)
def test_batches_are_a_pure_function_that_leaves_the_global_generator_alone(relay, epoch):
    state = torch.get_rng_state()
    *_, (ranks, start, _, earlier) = legs_of(relay)
    first, second = (torch.cat(list(ranks[0].batches(epoch, start, earlier))) for _ in range(2))
    assert torch.equal(first, second)
    assert torch.equal(state, torch.get_rng_state())


def test_rows_fewer_than_a_batch_make_one_step():
    (batch,) = EpochSampler(3, 128).batches(0)
    assert sorted(batch.tolist()) == [0, 1, 2]


def test_an_epoch_handed_over_many_times_is_replayed_once_and_not_once_for_every_way_back():
    """Twenty changes among eight and four ranks; asking every stretch for all before it would take hours."""
    earlier = [Stretch((8, 4)[index % 2], index + 1) for index in range(20)]
    sampler = EpochSampler(4000, 100, world_size=8)
    began = time.process_time()
    assert len(next(sampler.batches(0, 20, earlier))) > 0
    assert sampler.global_size(0, 20, earlier) == pytest.approx(100, abs=12)
    assert time.process_time() - began < 5


# rows in shards


def blocked(sizes, batch_size=16, seed=0, rank=0, world_size=1, window=2):
    order = Order(sum(sizes), Blocks.of_sizes(torch.tensor(sizes)))
    return order, EpochSampler(
        order.num_rows, batch_size, seed, rank, world_size, blocks=order.placed, window=window
    )


@st.composite
def sharded_relays(draw):
    relay = draw(relays())
    sizes, left = [], relay[0][0]
    while left:
        sizes.append(draw(st.integers(1, left)))
        left -= sizes[-1]
    return relay, sizes, draw(st.integers(1, 5))


@settings(max_examples=150, deadline=None)
@given(case=sharded_relays(), epoch=EPOCHS)
def test_of_shards_too_every_row_is_visited_once_whoever_takes_over_in_mid_shard(case, epoch):
    (plan, legs), sizes, window = case
    order = Order(sum(sizes), Blocks.of_sizes(torch.tensor(sizes)))
    seen = []
    for ranks, start, end, earlier in legs_of((plan, legs)):
        for plain in ranks:
            sampler = replace(plain, blocks=order.placed, window=window)
            owned = order.owned_indices(sampler.rank, sampler.world_size)
            batches = list(sampler.batches(epoch, start, earlier))
            again = list(sampler.batches(epoch, start + 1, earlier)) if start + 1 < sampler.steps else []
            assert [batch.tolist() for batch in batches[1:]] == [batch.tolist() for batch in again]
            seen += [owned[batch] for batch in batches[: end - start]]
    assert sorted(torch.cat(seen).tolist()) == list(range(sum(sizes)))


@quick
@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=30), epoch=EPOCHS, window=st.integers(1, 5))
def test_a_shard_is_read_within_one_window(sizes, epoch, window):
    order, sampler = blocked(sizes, batch_size=5, window=window)
    rows = order.owned_indices()[torch.cat(list(sampler.batches(epoch)))]
    shards = order.blocks.of(rows).tolist()
    opened = list(dict.fromkeys(shards))
    place = 0
    for first in range(0, len(opened), window):
        together = opened[first : first + window]
        count = sum(sizes[shard] for shard in together)
        assert set(shards[place : place + count]) == set(together)
        place += count


def test_shards_and_rows_within_windows_are_shuffled_anew_in_every_epoch():
    order, sampler = blocked([20] * 30, batch_size=600, window=3)
    epochs = [order.owned_indices()[next(sampler.batches(epoch))] for epoch in range(3)]
    shards = [list(dict.fromkeys(order.blocks.of(rows).tolist())) for rows in epochs]
    assert len({tuple(each) for each in shards}) == 3
    within = [rows[order.blocks.of(rows) == 7].tolist() for rows in epochs]
    assert len({tuple(each) for each in within}) == 3
    mixed = order.blocks.of(epochs[0][:60]).tolist()
    assert sum(one != other for one, other in itertools.pairwise(mixed)) > 20  # not shard after shard


def test_the_order_of_rows_without_shards_is_the_one_it_always_was():
    batches = torch.cat(list(EpochSampler(10, 4, seed=3).batches(2)))
    assert batches.tolist() == [3, 7, 1, 2, 8, 9, 5, 0, 6, 4]
