"""Cut rows against the whole rows they stand for."""

import math

import pytest
import torch
from hypothesis import given as forall
from hypothesis import settings
from hypothesis import strategies as st

from pencil.algorithm import (
    Pencil,
    Phase,
    TopPencil,
    TopRows,
    cut,
    moment_at,
    network_loss,
    updated_label_logits,
)
from pencil.algorithm.top_rows import largest, start_top_rows, top_network_loss, updated_top_rows

DIRECTIONS = ("prediction_label", "label_prediction")
FORMS = ("printed", "reference")
CORRECTING = moment_at((Phase(name="correction", epochs=1, learning_rate=0.1),), 0.0)


def random(*shape, seed=0, scale=1.0):
    return scale * torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def random_top(batch=5, classes=12, k=3, seed=0):
    return cut(random(batch, classes, seed=seed, scale=3.0), k)


def hard(batch=5, classes=12, seed=0):
    return torch.randint(classes, (batch,), generator=torch.Generator().manual_seed(seed))


def same_rows(one: TopRows, other: TopRows, **tolerance):
    torch.testing.assert_close(one.dense(), other.dense(), **tolerance)


# the rows themselves


def test_cutting_keeps_the_largest_entries_and_the_sum_of_exponentials():
    rows = random(7, 12)
    top = cut(rows, 4)
    dense = top.dense()
    for whole, short in zip(rows, dense, strict=True):
        kept = whole.topk(4)
        assert torch.equal(short[kept.indices], kept.values)
        others = [j for j in range(12) if j not in kept.indices.tolist()]
        mean = math.log(sum(math.exp(whole[j]) for j in others) / len(others))
        torch.testing.assert_close(short[others], torch.full((8,), mean, dtype=torch.float64))
    torch.testing.assert_close(dense.logsumexp(dim=1), rows.logsumexp(dim=1))


def test_cut_rows_behave_as_the_tensor_they_stand_for():
    top = random_top()
    dense = top.dense()
    torch.testing.assert_close(top.softmax().dense(), dense.softmax(dim=1))
    assert torch.equal(top.max(dim=1).indices, dense.max(dim=1).indices)
    assert torch.equal(top.max(dim=1).values, dense.max(dim=1).values)
    classes = torch.tensor([[0, 3, 11, 3]]).repeat(5, 1)
    assert torch.equal(top.at(classes), dense.gather(1, classes))
    some = torch.tensor([3, 1])
    assert torch.equal(top[some].dense(), dense[some])
    assert torch.equal(top[torch.tensor([True, False, False, True, False])].dense(), dense[[0, 3]])
    assert len(top) == 5
    assert torch.equal(top.to(torch.device("cpu")).detach().dense(), dense)


@pytest.mark.parametrize(("kept", "first"), [([0, 1], 2), ([1, 0], 2), ([2, 3], 0), ([0, 2], 1)])
def test_where_the_shared_entry_is_largest_the_first_class_that_shares_it_is_likeliest(kept, first):
    top = TopRows(torch.tensor([kept]), torch.tensor([[-1.0, 0.0]]), torch.tensor([[0.5]]), 4)
    assert top.max(dim=1).indices.tolist() == [first] == top.dense().argmax(dim=1).tolist()
    assert top.max(dim=1).values.tolist() == [0.5]


def test_rows_start_as_whole_rows_do():
    given = hard()
    start = start_top_rows(given, 12, 4, 10.0)
    assert torch.equal(start.dense(), Pencil().start_rows(given, 12))
    assert all(len(set(classes)) == 4 for classes in start.classes.tolist())


def test_votes_start_cut():
    votes = torch.tensor([[0.6, 0.4, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]])
    same_rows(start_top_rows(votes, 4, 2, 10.0), cut(Pencil().start_rows(votes, 4), 2))


# the losses


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("weight", [0.0, 0.8])
def test_the_loss_and_its_gradient_are_those_of_the_rows_they_stand_for(direction, weight):
    top = random_top()
    logits = random(5, 12, seed=1).requires_grad_()
    other = logits.detach().clone().requires_grad_()
    log_probs = logits.log_softmax(dim=1)
    mine, theirs = (
        top_network_loss(log_probs, log_probs.exp(), top, weight, direction),
        network_loss(other, top.dense(), weight, direction),
    )
    torch.testing.assert_close(mine, theirs)
    mine.sum().backward()
    theirs.sum().backward()
    torch.testing.assert_close(logits.grad, other.grad)


# the update


def naive_update(top, probs, given, k, **knobs):
    """The whole rows, updated class by class, then cut."""
    return cut(updated_label_logits(top.dense(), probs, given, **knobs), k)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("soft", [False, True])
def test_where_every_class_may_enter_the_update_is_the_whole_one_then_cut(form, direction, soft):
    """With 2k + k candidates of 7 classes nothing is left to share a mean."""
    top, probs = random_top(6, 7, 3), random(6, 7, seed=1, scale=2.0).softmax(dim=1)
    given = random(6, 7, seed=2).softmax(dim=1) if soft else hard(6, 7)
    knobs = {"label_rate": 2.0, "pull": 1.5, "form": form, "direction": direction}
    same_rows(updated_top_rows(top, probs, given, **knobs), naive_update(top, probs, given, 3, **knobs))


@settings(max_examples=60, deadline=None)
@forall(
    st.integers(0, 10**6),
    st.sampled_from([1, 2, 5]),
    st.sampled_from([0.0, 0.5, 3.0]),
    st.sampled_from([0.0, 1.0]),
)
def test_with_many_classes_the_update_is_the_whole_one_then_cut_but_for_their_mean(seed, k, rate, pull):
    """exp of a mean for a mean of exp, over predictions below the 2k likeliest: a hundredth in one shared entry."""
    classes = 60
    top = random_top(8, classes, k, seed)
    probs = random(8, classes, seed=seed + 1, scale=3.0).softmax(dim=1)
    knobs = {"label_rate": rate, "pull": pull, "form": "reference"}
    mine, whole = (
        updated_top_rows(top, probs, hard(8, classes, seed), **knobs),
        naive_update(top, probs, hard(8, classes, seed), k, **knobs),
    )
    torch.testing.assert_close(mine.values, whole.values, rtol=0, atol=2e-2)
    torch.testing.assert_close(mine.rest, whole.rest, rtol=0, atol=2e-2)
    assert all(len(set(row)) == k for row in mine.classes.tolist())


def test_a_newly_likely_class_takes_the_place_of_the_least():
    top = TopRows(torch.tensor([[4, 7]]), torch.tensor([[6.0, 0.1]]), torch.tensor([[0.0]]), 10)
    probs = torch.full((1, 10), 0.01).index_fill_(1, torch.tensor([2]), 0.91)
    moved = updated_top_rows(top, probs, torch.tensor([4]), label_rate=1.0, pull=0.0)
    assert set(moved.classes[0].tolist()) == {4, 2}
    assert float(moved.at(torch.tensor([[2]]))) == pytest.approx(0.9, abs=0.02)


def test_the_given_class_that_fell_out_is_still_pulled_back():
    top = TopRows(torch.tensor([[0, 1]]), torch.tensor([[3.0, 1.0]]), torch.tensor([[0.0]]), 10)
    probs = torch.full((1, 10), 0.1)
    moved = updated_top_rows(top, probs, torch.tensor([9]), label_rate=1.0, pull=5.0, form="printed")
    assert 9 in moved.classes[0].tolist()


@settings(max_examples=60, deadline=None)
@forall(st.integers(0, 10**6), st.integers(1, 200), st.integers(1, 9), st.sampled_from([1, 4, 16]))
def test_the_largest_values_are_found_by_their_blocks(seed, width, count, block):
    values = random(3, width, seed=seed)
    count = min(count, width)
    found = largest(values, count, block)
    assert torch.equal(values.gather(1, found), values.topk(count, dim=1).values)


def test_rows_may_be_updated_many_times_and_stay_distributions():
    rows, given = start_top_rows(hard(20, 50), 50, 4, 10.0), hard(20, 50)
    for seed in range(200):
        probs = random(20, 50, seed=seed, scale=2.0).softmax(dim=1).float()
        rows = updated_top_rows(rows, probs, given, label_rate=2.0, pull=1.0)
        totals = rows.softmax().values.sum(dim=1) + 46 * rows.softmax().rest[:, 0]
        torch.testing.assert_close(totals, torch.ones(20), rtol=0, atol=1e-5)


# the method


@pytest.mark.parametrize("phase", ["backbone", "correction", "finetune"])
def test_the_method_follows_the_phases_of_whole_rows(phase):
    moment = moment_at((Phase(name=phase, epochs=1, learning_rate=0.1),), 0.0)
    pencil, given, logits = Pencil(label_rate=2.0, divide_by_classes=True), hard(6, 7), random(6, 7, seed=3)
    method = TopPencil(pencil, 3)
    rows = method.start_rows(given, 7)
    mine = method.step(logits, rows, given, moment)
    whole = pencil.step(logits, rows.dense().double(), given, moment)
    torch.testing.assert_close(mine.loss, whole.loss, rtol=1e-5, atol=1e-6)
    assert (mine.rows is None) == (whole.rows is None) == (phase != "correction")
    if mine.rows is not None:
        torch.testing.assert_close(mine.rows.dense(), cut(whole.rows, 3).dense(), rtol=1e-5, atol=1e-5)
    assert (method.name, method.row_width(7)) == ("pencil", 7)


def test_half_precision_logits_are_taken():
    method, given = TopPencil(Pencil(), 2), hard(4, 9)
    step = method.step(random(4, 9).bfloat16(), method.start_rows(given, 9), given, CORRECTING)
    assert step.rows.values.dtype == torch.float32
    assert torch.isfinite(step.rows.values).all()
