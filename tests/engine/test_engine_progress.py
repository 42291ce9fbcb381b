"""Sums over examples do not depend on how they are cut into batches, ranks and resumed runs."""

from dataclasses import asdict
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pencil.data import EpochSampler
from pencil.data.sampler import Stretch
from pencil.engine import Runtime
from pencil.engine.checkpoint import from_bytes, to_bytes
from pencil.engine.learner import LabelChanges
from pencil.engine.progress import Progress, Tally

COUNT = 24
ROWS = 100  # in 10 steps
CPU = torch.device("cpu")
GENERATOR = torch.Generator().manual_seed(0)
LOGITS = torch.randn(COUNT, 3, generator=GENERATOR)
LOSSES = torch.randint(1, 100, (COUNT,), generator=GENERATOR) / 8  # whose sums are exact
GIVEN = torch.randint(3, (COUNT,), generator=GENERATOR)


class Ranks(Runtime):
    """A rank among others whose tallies are known."""

    def total(self, values):
        return values + sum(torch.tensor(list(asdict(other).values())) for other in OTHERS)


OTHERS = [Tally(10, 2.5, 7, 4, 1), Tally(6, 0.25, 0, 6, 6)]


def sampler(**ranks):
    return EpochSampler(ROWS, 10, **ranks)


def counted(start=0, stop=COUNT):
    tally = Tally()
    tally.count(LOGITS[start:stop], LOSSES[start:stop], GIVEN[start:stop])
    return tally


def test_a_batch_is_counted_as_a_loop_over_its_examples_would():
    agreeing = sum(int(row.argmax()) == int(label) for row, label in zip(LOGITS, GIVEN, strict=True))
    assert 0 < agreeing < COUNT
    assert counted() == Tally(examples=COUNT, loss=sum(LOSSES.tolist()), agreeing=agreeing)


@settings(max_examples=30, deadline=None)
@given(cuts=st.lists(st.integers(0, COUNT), max_size=5))
def test_it_does_not_matter_how_examples_are_cut_into_batches(cuts):
    tally, edges = Tally(), [0, *sorted(cuts), COUNT]
    for start, stop in pairwise(edges):
        tally.count(LOGITS[start:stop], LOSSES[start:stop], GIVEN[start:stop])
    assert tally == counted()


def test_each_of_two_networks_counts_as_a_forward_pass():
    tally = Tally()
    tally.count_forward(LOGITS)
    tally.count_forward(torch.stack([LOGITS, LOGITS], dim=1))
    tally.count_forward(LOGITS[:5])
    assert (tally.examples, tally.forward) == (0, 3 * COUNT + 5)


def test_written_labels_add_up():
    tally = Tally()
    for written in (LabelChanges(5, 2), LabelChanges(), LabelChanges(3, 3)):
        tally.count_labels(written)
    assert tally == Tally(moved=8, changed=5)


def test_alone_the_sums_of_all_ranks_are_ones_own_and_a_copy():
    tally = counted()
    everyone = tally.of_all_ranks(Runtime(device=CPU))
    assert everyone == tally
    everyone.count_labels(LabelChanges(1, 1))
    assert tally == counted()


def test_ranks_add_up_field_by_field_and_keep_their_own_sums():
    tally = Tally(1, 0.5, 1, 1, 1)
    runtime = Ranks(device=CPU, world_size=3)
    assert tally.of_all_ranks(runtime) == Tally(17, 3.25, 8, 11, 8)
    assert tally == Tally(1, 0.5, 1, 1, 1)


@pytest.mark.parametrize("loss", [1 / 3, 1e300, 0.1 + 0.2])
def test_progress_survives_a_checkpoint_to_the_last_digit(loss):
    progress = Progress(17, Tally(COUNT, loss, 7, 3, 2, 51), 5.0, loss, (Stretch(2, 3),))
    saved = from_bytes(to_bytes(progress.to_json(ROWS, Runtime(device=CPU))))
    assert Progress.from_json(saved, sampler()) == progress


def test_other_ranks_continue_without_the_sums_that_the_first_one_continues():
    saved = Progress(17, counted(), 5.0, 1.5).to_json(ROWS, Runtime(device=CPU))
    ranks = [Progress.from_json(saved, sampler(rank=rank, world_size=2)) for rank in (0, 1)]
    assert [progress.tally for progress in ranks] == [counted(), Tally()]
    assert all(progress.earlier == (Stretch(1, 17 % 10),) for progress in ranks)


def test_between_two_epochs_nobody_has_taken_earlier_steps():
    saved = Progress(20).to_json(ROWS, Runtime(device=CPU))
    assert Progress.from_json(saved, sampler(world_size=2)).earlier == ()
