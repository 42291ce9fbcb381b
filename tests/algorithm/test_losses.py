"""Each loss against a double loop written from the paper's equation."""

import math

import pytest
import torch
from hypothesis import given as hypothesis_given
from hypothesis import settings
from hypothesis import strategies as st
from torch.testing import assert_close

from pencil.algorithm import (
    balance_loss,
    classification_loss,
    compatibility_loss,
    cross_entropy,
    entropy_loss,
    kl_divergence,
    network_loss,
    updated_label_logits,
)

SEEDS = st.integers(0, 2**31 - 1)
SHAPES = st.tuples(st.integers(1, 6), st.integers(2, 7))
quick = settings(max_examples=25, deadline=None)


def logits_of(seed, shape, spread=3.0):
    return spread * torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def softmax(row):
    top = max(row)
    powers = [math.exp(value - top) for value in row]
    return [power / sum(powers) for power in powers]


def looped(term, *matrices):
    """Σ_j term(a_ij, b_ij, ...) for every i."""
    rows = zip(*(matrix if isinstance(matrix, list) else matrix.tolist() for matrix in matrices), strict=True)
    totals = []
    for row in rows:
        total = 0.0
        for entries in zip(*row, strict=True):
            total += term(*entries)
        totals.append(total)
    return torch.tensor(totals, dtype=torch.float64)


def probabilities(logits):
    return [softmax(row) for row in logits.tolist()]


def one_hot(classes, width):
    return [[1.0 if j == k else 0.0 for j in range(width)] for k in classes.tolist()]


def given_labels(kind, seed, shape):
    """The labels as the library takes them, and as the paper's ŷ_ij."""
    if kind == "soft":
        soft = logits_of(seed + 1, shape).softmax(dim=1)
        return soft, soft.tolist()
    hard = torch.randint(shape[1], shape[:1], generator=torch.Generator().manual_seed(seed))
    return hard, one_hot(hard, shape[1])


@pytest.mark.parametrize("kind", ["hard", "soft"])
@quick
@hypothesis_given(seed=SEEDS, shape=SHAPES)
def test_cross_entropy_is_equation_1(kind, seed, shape):
    logits = logits_of(seed, shape)
    labels, hat = given_labels(kind, seed, shape)
    expected = looped(lambda y, f: -y * math.log(f), hat, probabilities(logits))
    assert_close(cross_entropy(logits, labels), expected)


@quick
@hypothesis_given(seed=SEEDS, shape=SHAPES)
def test_classification_loss_is_equation_5(seed, shape):
    logits, label_logits = logits_of(seed, shape), logits_of(seed + 1, shape)
    expected = looped(lambda f, y: f * math.log(f / y), probabilities(logits), probabilities(label_logits))
    assert_close(classification_loss(logits, label_logits), expected)


@quick
@hypothesis_given(seed=SEEDS, shape=SHAPES)
def test_classification_loss_the_other_way_is_equation_3(seed, shape):
    logits, label_logits = logits_of(seed, shape), logits_of(seed + 1, shape)
    expected = looped(lambda f, y: y * math.log(y / f), probabilities(logits), probabilities(label_logits))
    assert_close(classification_loss(logits, label_logits, "label_prediction"), expected)


@quick
@hypothesis_given(seed=SEEDS, shape=SHAPES)
def test_entropy_loss_is_the_papers(seed, shape):
    logits = logits_of(seed, shape)
    assert_close(entropy_loss(logits), looped(lambda f: -f * math.log(f), probabilities(logits)))


@pytest.mark.parametrize("kind", ["hard", "soft"])
@quick
@hypothesis_given(seed=SEEDS, shape=SHAPES)
def test_printed_compatibility_loss_is_the_papers(kind, seed, shape):
    label_logits = logits_of(seed, shape)
    labels, hat = given_labels(kind, seed, shape)
    expected = looped(lambda hat_ij, y: -hat_ij * math.log(y), hat, probabilities(label_logits))
    assert_close(compatibility_loss(label_logits, labels, "printed"), expected)


@pytest.mark.parametrize("kind", ["hard", "soft"])
@quick
@hypothesis_given(seed=SEEDS, shape=SHAPES)
def test_reference_compatibility_loss_applies_softmax_twice(kind, seed, shape):
    label_logits = logits_of(seed, shape)
    labels, hat = given_labels(kind, seed, shape)
    twice = [softmax(row) for row in probabilities(label_logits)]
    expected = looped(lambda hat_ij, q: -hat_ij * math.log(q), hat, twice)
    assert_close(compatibility_loss(label_logits, labels, "reference"), expected)


@pytest.mark.parametrize("direction", ["prediction_label", "label_prediction"])
@quick
@hypothesis_given(seed=SEEDS, shape=SHAPES, beta=st.floats(0, 2))
def test_network_loss_is_classification_plus_weighted_entropy(direction, seed, shape, beta):
    logits, label_logits = logits_of(seed, shape), logits_of(seed + 1, shape)

    def term(f, y):
        kl = f * math.log(f / y) if direction == "prediction_label" else y * math.log(y / f)
        return kl - beta * f * math.log(f)

    expected = looped(term, probabilities(logits), probabilities(label_logits))
    assert_close(network_loss(logits, label_logits, beta, direction), expected)


@quick
@hypothesis_given(seed=SEEDS, shape=SHAPES)
def test_divergence_is_not_negative_and_vanishes_only_between_equals(seed, shape):
    log_p, log_q = logits_of(seed, shape).log_softmax(1), logits_of(seed + 1, shape).log_softmax(1)
    assert (kl_divergence(log_p, log_q) > 0).all()
    assert_close(kl_divergence(log_p, log_p), torch.zeros(shape[0], dtype=torch.float64))


@quick
@hypothesis_given(seed=SEEDS, shape=SHAPES, spread=st.floats(0, 100))
def test_entropy_lies_between_zero_and_log_c(seed, shape, spread):
    entropy = entropy_loss(logits_of(seed, shape, spread))
    assert (entropy >= 0).all()
    assert (entropy <= math.log(shape[1]) + 1e-12).all()


@quick
@hypothesis_given(seed=SEEDS, shape=SHAPES)
def test_an_examples_loss_does_not_see_the_batch(seed, shape):
    logits, label_logits = logits_of(seed, shape), logits_of(seed + 1, shape)
    alone = [network_loss(logits[i : i + 1], label_logits[i : i + 1], 0.4) for i in range(shape[0])]
    assert_close(network_loss(logits, label_logits, 0.4), torch.cat(alone), rtol=0, atol=1e-12)


@pytest.mark.parametrize("direction", ["prediction_label", "label_prediction"])
def test_losses_and_gradients_stay_finite_at_extreme_logits(direction):
    logits = torch.tensor([[1e4, -1e4, 0.0], [0.0, 200.0, -200.0]], requires_grad=True)
    loss = network_loss(logits, torch.tensor([[-50.0, 50.0, 0.0], [90.0, 0.0, -90.0]]), 0.8, direction)
    loss.sum().backward()
    assert loss.isfinite().all()
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize(
    "given",
    [torch.tensor([1, 0], dtype=torch.int32), torch.tensor([[0, 1], [1, 0]])],
    ids=["int32", "one-hot integers"],
)
def test_the_loss_takes_the_labels_the_update_takes(given):
    logits = torch.tensor([[0.0, 1.0], [2.0, 0.0]])
    updated_label_logits(logits, logits.softmax(1), given, label_rate=1.0, pull=1.0)
    assert_close(cross_entropy(logits, given), cross_entropy(logits, torch.tensor([1, 0])))


def test_an_unknown_direction_reads_the_same_in_every_loss_and_in_the_update():
    """``Pencil`` refuses one; who calls the functions by themselves gets one reading, not two."""
    logits, rows = torch.tensor([[0.0, 2.0]]), torch.tensor([[3.0, 0.0]])
    expected = classification_loss(logits, rows, "label_prediction")
    assert_close(classification_loss(logits, rows, "label"), expected)
    assert_close(network_loss(logits, rows, 0.0, "label"), expected)
    moved = [
        updated_label_logits(
            rows, logits.softmax(1), torch.tensor([0]), label_rate=1.0, pull=0.0, direction=direction
        )
        for direction in ("label", "label_prediction")
    ]
    assert torch.equal(*moved)


@quick
@hypothesis_given(seed=SEEDS, shape=SHAPES, kind=st.sampled_from(["hard", "soft", "uniform"]))
def test_balance_loss_is_the_loop_over_the_mean_prediction(seed, shape, kind):
    logits = logits_of(seed, shape)
    labels, hat = given_labels(kind, seed, shape)
    rows = probabilities(logits)
    mean = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    if kind == "uniform":
        hat = [[1 / shape[1]] * shape[1]] * len(rows)
    expected = looped(lambda p, m: -p * math.log(m), hat, [mean] * len(rows))
    assert_close(balance_loss(logits, labels, "uniform" if kind == "uniform" else "given"), expected)


@quick
@hypothesis_given(seed=SEEDS, shape=SHAPES)
def test_no_mean_prediction_is_better_balanced_than_the_given_shares(seed, shape):
    given = logits_of(seed + 1, shape).softmax(dim=1)
    balanced = given.log().roll(1, 0)  # other examples' predictions, the same mean
    assert balance_loss(balanced, given).mean() <= balance_loss(logits_of(seed, shape), given).mean() + 1e-12
