"""The closed-form label update: the paper's step, to rounding, and what it never depends on."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given as hypothesis_given
from hypothesis import settings
from hypothesis import strategies as st
from torch.testing import assert_close

from pencil.algorithm import (
    Pencil,
    as_distribution,
    classification_loss,
    compatibility_loss,
    entropy_loss,
    start_label_logits,
    updated_label_logits,
)
from pencil.algorithm.update import classification_gradient, compatibility_gradient
from pencil.stores import GivenLabels

SEEDS = st.integers(0, 2**31 - 1)
SHAPES = st.tuples(st.integers(1, 9), st.integers(2, 12))
FORMS = ["printed", "reference"]
DIRECTIONS = ["prediction_label", "label_prediction"]
KINDS = ["hard", "soft"]
quick = settings(max_examples=20, deadline=None)
every_rule = [
    pytest.mark.parametrize("form", FORMS),
    pytest.mark.parametrize("direction", DIRECTIONS),
    pytest.mark.parametrize("kind", KINDS),
]


def over_every_rule(test):
    for mark in every_rule:
        test = mark(test)
    return test


def batch_of(seed, shape, kind):
    """Logits, label logits and given labels (B, C) in float64."""
    generator = torch.Generator().manual_seed(seed)
    logits, label_logits, soft = (
        3 * torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(3)
    )
    hard = torch.randint(shape[1], shape[:1], generator=generator)
    return logits, label_logits, hard if kind == "hard" else soft.softmax(dim=1)


def gradient_of(loss, label_logits):
    leaf = label_logits.clone().requires_grad_()
    return torch.autograd.grad(loss(leaf).sum(), leaf)[0]


@pytest.mark.parametrize("direction", DIRECTIONS)
@quick
@hypothesis_given(seed=SEEDS, shape=SHAPES)
def test_classification_gradient_is_autograds(direction, seed, shape):
    logits, label_logits, _ = batch_of(seed, shape, "hard")
    expected = gradient_of(lambda leaf: classification_loss(logits, leaf, direction), label_logits)
    closed = classification_gradient(logits.softmax(1), label_logits.softmax(1), direction)
    assert_close(closed, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
@quick
@hypothesis_given(seed=SEEDS, shape=SHAPES)
def test_compatibility_gradient_is_autograds(form, kind, seed, shape):
    _, label_logits, given = batch_of(seed, shape, kind)
    expected = gradient_of(lambda leaf: compatibility_loss(leaf, given, form), label_logits)
    hat = as_distribution(given, shape[1]).double()
    closed = compatibility_gradient(label_logits.softmax(1), hat, form)
    assert_close(closed, expected, rtol=0, atol=1e-12)


@over_every_rule
@quick
@hypothesis_given(
    seed=SEEDS, shape=SHAPES, lambda_=st.floats(1, 10_000), alpha=st.floats(0, 1), beta=st.floats(0, 1)
)
def test_one_visit_is_the_papers_sgd_step_on_equation_9(
    form, direction, kind, seed, shape, lambda_, alpha, beta
):
    """ỹ <- ỹ - λ dL/dỹ with L = (1/c) L_c + α L_o + (β/c) L_e, every L a mean over the batch's B examples."""
    logits, label_logits, given = batch_of(seed, shape, kind)
    size, classes = shape
    leaf = label_logits.clone().requires_grad_()
    loss = classification_loss(logits, leaf, direction).mean() / classes
    loss = loss + alpha * compatibility_loss(leaf, given, form).mean()
    loss = loss + beta / classes * entropy_loss(logits).mean()
    loss.backward()
    torch.optim.SGD([leaf], lr=lambda_).step()

    method = Pencil.from_paper(
        lambda_=lambda_, alpha=alpha, beta=beta, batch_size=size, num_classes=classes, form=form
    )
    ours = updated_label_logits(
        label_logits,
        logits.softmax(1),
        given,
        label_rate=method.label_rate,
        pull=method.pull,
        form=method.form,
        direction=replace(method, direction=direction).direction,
    )
    assert_close(ours, leaf.detach(), rtol=1e-12, atol=1e-12)


@over_every_rule
@quick
@hypothesis_given(seed=SEEDS, shape=SHAPES, data=st.data())
def test_a_rows_update_knows_nothing_of_its_batch(form, direction, kind, seed, shape, data):
    """Order, partial batches and accumulation: any split of any order gives each row the same new value."""
    logits, label_logits, given = batch_of(seed, shape, kind)
    order = torch.tensor(data.draw(st.permutations(range(shape[0]))))
    cut = data.draw(st.integers(0, shape[0]))
    rule = {"label_rate": 0.9, "pull": 1.3, "form": form, "direction": direction}
    whole = updated_label_logits(label_logits, logits.softmax(1), given, **rule)
    pieces = [
        updated_label_logits(label_logits[part], logits[part].softmax(1), given[part], **rule)
        for part in (order[:cut], order[cut:])
        if len(part)
    ]
    assert_close(torch.cat(pieces), whole[order], rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_printed_update_of_a_row_is_bit_equal_alone_and_in_a_batch(dtype):
    logits, label_logits, given = batch_of(0, (37, 10), "hard")
    logits, label_logits = logits.to(dtype), label_logits.to(dtype)
    rule = {"label_rate": 0.47, "pull": 1.0, "form": "printed"}
    whole = updated_label_logits(label_logits, logits.softmax(1), given, **rule)
    alone = [
        updated_label_logits(label_logits[i : i + 1], logits[i : i + 1].softmax(1), given[i : i + 1], **rule)
        for i in range(37)
    ]
    assert torch.equal(torch.cat(alone), whole)


@over_every_rule
@quick
@hypothesis_given(seed=SEEDS, shape=SHAPES, label_rate=st.floats(0, 10), pull=st.floats(0, 20))
def test_an_update_never_moves_the_mean_of_a_row(form, direction, kind, seed, shape, label_rate, pull):
    logits, label_logits, given = batch_of(seed, shape, kind)
    rule = {"label_rate": label_rate, "pull": pull, "form": form, "direction": direction}
    moved = updated_label_logits(label_logits, logits.softmax(1), given, **rule)
    assert_close(moved.mean(1), label_logits.mean(1), rtol=0, atol=1e-11)


@over_every_rule
@quick
@hypothesis_given(seed=SEEDS, shape=SHAPES, label_rate=st.floats(0, 10), pull=st.floats(0, 20))
def test_rows_stay_distributions_whatever_the_predictions(
    form, direction, kind, seed, shape, label_rate, pull
):
    _, label_logits, given = batch_of(seed, shape, kind)
    generator = torch.Generator().manual_seed(seed)
    rows = label_logits.float()
    for _ in range(10):
        probs = (100 * torch.randn(shape, generator=generator)).softmax(1)
        rule = {"label_rate": label_rate, "pull": pull, "form": form, "direction": direction}
        rows = updated_label_logits(rows, probs, given, **rule)
    labels = rows.softmax(1)
    assert rows.isfinite().all()
    assert (labels >= 0).all()
    assert_close(labels.sum(1), torch.ones(shape[0]))


@quick
@hypothesis_given(seed=SEEDS, shape=SHAPES, pull=st.floats(0, 20), label_rate=st.floats(0.01, 5))
def test_printed_update_rests_at_the_stationary_point(seed, shape, pull, label_rate):
    """y* = (f + κ ŷ) / (1 + κ)."""
    logits, _, given = batch_of(seed, shape, "soft")
    stationary = ((logits.softmax(1) + pull * given) / (1 + pull)).log()
    moved = updated_label_logits(
        stationary, logits.softmax(1), given, label_rate=label_rate, pull=pull, form="printed"
    )
    assert_close(moved, stationary, rtol=0, atol=1e-12)


def test_printed_stationary_point_flips_only_where_the_prediction_beats_the_pull():
    """f_new - f_noisy > κ is what a flip takes."""
    probs = torch.tensor([[0.3, 0.7], [0.3, 0.7]], dtype=torch.float64)
    for pull, flips in ((0.39, True), (0.41, False)):
        rows = start_label_logits(torch.zeros(2, dtype=torch.long), 2).double()
        for _ in range(500):
            rows = updated_label_logits(
                rows, probs, torch.zeros(2, dtype=torch.long), label_rate=0.5, pull=pull, form="printed"
            )
        assert bool((rows.argmax(1) == 1).all()) is flips


def test_reference_pull_vanishes_at_every_one_hot_label():
    labels, given = torch.eye(4, dtype=torch.float64), torch.eye(4, dtype=torch.float64)[[1, 1, 1, 1]]
    assert_close(compatibility_gradient(labels, given, "reference"), torch.zeros(4, 4, dtype=torch.float64))


def test_without_pull_the_given_labels_do_not_matter():
    logits, label_logits, _ = batch_of(3, (4, 5), "hard")
    moved = [
        updated_label_logits(label_logits, logits.softmax(1), given, label_rate=1.0, pull=0.0)
        for given in (torch.zeros(4, dtype=torch.long), torch.full((4, 5), 0.2))
    ]
    assert torch.equal(moved[0], moved[1])


@over_every_rule
def test_the_update_leaves_its_arguments_alone(form, direction, kind):
    logits, label_logits, given = batch_of(5, (6, 4), kind)
    probs = logits.softmax(1)
    before = [tensor.clone() for tensor in (label_logits, probs, given)]
    updated_label_logits(label_logits, probs, given, label_rate=2.0, pull=3.0, form=form, direction=direction)
    for old, new in zip(before, (label_logits, probs, given), strict=True):
        assert torch.equal(old, new)


def test_as_distribution_reads_indices_and_leaves_distributions():
    assert torch.equal(as_distribution(torch.tensor([2, 0]), 3), torch.tensor([[0.0, 0, 1], [1, 0, 0]]))
    soft = torch.tensor([[0.25, 0.75]], dtype=torch.float64)
    assert as_distribution(soft, 2) is soft
    assert torch.equal(as_distribution(torch.tensor([[0, 1]]), 2), torch.tensor([[0.0, 1.0]]))
    assert torch.equal(as_distribution(torch.tensor([1], dtype=torch.int32), 2), torch.tensor([[0.0, 1.0]]))


@quick
@hypothesis_given(classes=st.integers(2, 50), gap=st.floats(0.5, 80), data=st.data())
def test_hard_labels_start_at_k_times_one_hot(classes, gap, data):
    """Eq. 8."""
    given = torch.tensor(data.draw(st.lists(st.integers(0, classes - 1), min_size=1, max_size=5)))
    expected = gap * torch.nn.functional.one_hot(given, classes).float()
    assert_close(start_label_logits(given, classes, gap), expected, rtol=1e-6, atol=0)


def test_the_papers_k_of_10_starts_exactly():
    start = start_label_logits(torch.tensor([1, 2]), 3)
    assert torch.equal(start, torch.tensor([[0.0, 10.0, 0.0], [0.0, 0.0, 10.0]]))
    assert (start.softmax(1).amax(1) > 0.9999 - 1e-4).all()


@quick
@hypothesis_given(seed=SEEDS, shape=SHAPES, gap=st.floats(0.5, 30))
def test_soft_labels_start_as_themselves_mixed_with_a_little_uniform(seed, shape, gap):
    _, _, soft = batch_of(seed, shape, "soft")
    mass = math.expm1(gap)
    labels = start_label_logits(soft, shape[1], gap).softmax(1)
    assert_close(labels, (soft * mass + 1) / (mass + shape[1]), rtol=1e-9, atol=1e-12)
    assert torch.equal(labels.argmax(1), soft.argmax(1))


def test_votes_of_six_to_four_start_as_six_to_four():
    votes = GivenLabels.of(torch.tensor([[6, 4]]))
    labels = start_label_logits(votes.values, 2).softmax(1)
    assert_close(labels, torch.tensor([[0.6, 0.4]]), rtol=0, atol=1e-4)


@pytest.mark.parametrize("gap", [88.8, 100.0, 1000.0])
def test_a_large_initial_gap_starts_finite(gap):
    """float32 overflows in e^K from K = 88.8 on."""
    assert_close(start_label_logits(torch.tensor([1]), 3, gap), torch.tensor([[0.0, gap, 0.0]]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_other_divergences_step_is_finite_where_predictions_vanish(dtype):
    """KL(y || f) has no bound as f goes to 0; the step stops growing below 1e-30."""
    probs = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]], dtype=dtype)
    labels = torch.tensor([[0.0, 1.0, 2.0], [-200.0, 200.0, 0.0]], dtype=dtype)
    moved = updated_label_logits(
        labels, probs, torch.tensor([0, 1]), label_rate=1.0, pull=1.0, direction="label_prediction"
    )
    assert moved.isfinite().all()
    assert_close(moved.sum(1), labels.sum(1), rtol=0, atol=1e-4)


def test_the_other_divergences_gradient_is_the_same_for_all_predictions_below_the_clamp():
    labels = torch.tensor([[0.2, 0.3, 0.5]], dtype=torch.float64)
    vanishing = [torch.tensor([[1.0, tiny, tiny]], dtype=torch.float64) for tiny in (1e-30, 1e-60, 0.0)]
    gradients = [classification_gradient(probs, labels, "label_prediction") for probs in vanishing]
    assert torch.equal(gradients[0], gradients[1])
    assert torch.equal(gradients[0], gradients[2])
