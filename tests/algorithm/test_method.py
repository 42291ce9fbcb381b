"""PENCIL as a method: the paper's terms converted, and the rule of each phase."""

import dataclasses

import pytest
import torch
from torch.testing import assert_close

from pencil.algorithm import (
    CosineSchedule,
    LinearSchedule,
    Moment,
    Pencil,
    Phase,
    PiecewiseSchedule,
    TopPencil,
    balance_loss,
    classification_loss,
    cross_entropy,
    cut,
    entropy_loss,
    start_label_logits,
    updated_label_logits,
)


def moment(name, elapsed=0.0, epochs=10):
    return Moment(Phase(name=name, epochs=epochs, learning_rate=0.1), elapsed)


def batch(soft=False):
    generator = torch.Generator().manual_seed(1)
    logits = 2 * torch.randn(6, 5, generator=generator, dtype=torch.float64)
    rows = 3 * torch.randn(6, 5, generator=generator, dtype=torch.float64)
    hard = torch.randint(5, (6,), generator=generator)
    distributions = torch.rand(6, 5, generator=generator, dtype=torch.float64)
    return logits, rows, distributions / distributions.sum(1, keepdim=True) if soft else hard


@pytest.mark.parametrize(
    ("data", "lambda_", "alpha", "batch_size", "classes", "label_rate", "pull"),
    [
        ("CIFAR-10 symmetric 10 %", 200, 0.1, 128, 10, 0.15625, 1.0),
        ("CIFAR-100", 10_000, 0.1, 128, 100, 0.78125, 10.0),
        ("CUB-200", 3000, 0.1, 16, 200, 0.9375, 20.0),
        ("Clothing1M", 3000, 0.08, 32, 14, 3000 / 448, 1.12),
    ],
)
def test_the_papers_terms_become_knobs_without_units(
    data, lambda_, alpha, batch_size, classes, label_rate, pull
):
    method = Pencil.from_paper(
        lambda_=lambda_, alpha=alpha, beta=0.4, batch_size=batch_size, num_classes=classes, form="printed"
    )
    assert method.label_rate == label_rate
    assert method.pull == pytest.approx(pull, rel=1e-15)
    assert method.entropy_weight == 0.4
    assert method.initial_gap == 10
    assert method.direction == "prediction_label"
    assert method.divide_by_classes


def test_from_paper_asks_which_compatibility_loss():
    with pytest.raises(TypeError, match="form"):
        Pencil.from_paper(lambda_=200, alpha=0.1, beta=0.8, batch_size=128, num_classes=10)


@pytest.mark.parametrize("soft", [False, True])
def test_backbone_is_cross_entropy_and_labels_rest(soft):
    logits, rows, given = batch(soft)
    step = Pencil(divide_by_classes=True).step(logits, rows, given, moment("backbone"))
    assert torch.equal(step.loss, cross_entropy(logits, given))
    assert step.rows is None


@pytest.mark.parametrize("direction", ["prediction_label", "label_prediction"])
@pytest.mark.parametrize(("divide", "scale"), [(False, 1.0), (True, 1 / 5)])
def test_finetune_is_the_classification_loss_alone_and_labels_rest(direction, divide, scale):
    logits, rows, given = batch()
    method = Pencil(direction=direction, divide_by_classes=divide)
    step = method.step(logits, rows, given, moment("finetune"))
    assert_close(step.loss, scale * classification_loss(logits, rows, direction))
    assert step.rows is None


@pytest.mark.parametrize("direction", ["prediction_label", "label_prediction"])
@pytest.mark.parametrize("form", ["printed", "reference"])
def test_correction_gives_the_network_the_gradient_of_equation_9(direction, form):
    logits, rows, given = batch()
    ours, paper = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    method = Pencil(direction=direction, form=form, entropy_weight=0.4, divide_by_classes=True)
    method.step(ours, rows, given, moment("correction")).loss.mean().backward()
    equation_9 = classification_loss(paper, rows, direction).mean() / 5 + 0.4 / 5 * entropy_loss(paper).mean()
    equation_9.backward()
    assert_close(ours.grad, paper.grad, rtol=0, atol=1e-12)


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("direction", ["prediction_label", "label_prediction"])
@pytest.mark.parametrize("form", ["printed", "reference"])
def test_correction_moves_the_rows_by_one_visit(form, direction, soft):
    logits, rows, given = batch(soft)
    method = Pencil(label_rate=0.7, pull=1.2, form=form, direction=direction)
    expected = updated_label_logits(
        rows, logits.softmax(1), given, label_rate=0.7, pull=1.2, form=form, direction=direction
    )
    assert torch.equal(method.step(logits, rows, given, moment("correction")).rows, expected)


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("store", ["whole", "cut"])
@pytest.mark.parametrize("shares", ["given", "uniform"])
def test_balance_is_added_in_the_correction_phase_alone(shares, store, soft):
    logits, rows, given = batch(soft)
    plain, balanced = Pencil(), Pencil(balance=0.5, shares=shares)
    if store == "cut":
        plain, balanced, rows = TopPencil(plain, 3), TopPencil(balanced, 3), cut(rows, 3)
    for name, weight in (("backbone", 0.0), ("correction", 0.5), ("finetune", 0.0)):
        with_it, without = (m.step(logits, rows, given, moment(name)).loss for m in (balanced, plain))
        assert_close(with_it, without + weight * balance_loss(logits, given, shares))


def test_a_scheduled_label_rate_is_read_at_the_moment():
    logits, rows, given = batch()
    method = Pencil(label_rate=LinearSchedule(2.0))
    moved = [
        method.step(logits, rows, given, moment("correction", at)).rows - rows for at in (0.0, 5.0, 10.0)
    ]
    assert_close(moved[1], moved[0] / 2)
    assert_close(moved[2], torch.zeros_like(rows))


def test_new_rows_carry_no_graph_and_the_loss_sees_the_old_rows():
    logits, rows, given = batch()
    logits.requires_grad_()
    before = rows.clone()
    step = Pencil().step(logits, rows, given, moment("correction"))
    assert not step.rows.requires_grad
    assert torch.equal(rows, before)
    expected = classification_loss(logits, before) + 0.8 * entropy_loss(logits)
    assert_close(step.loss, expected)


def test_loss_is_one_value_per_example_in_every_phase():
    logits, rows, given = batch()
    for name in ("backbone", "correction", "finetune"):
        assert Pencil().step(logits, rows, given, moment(name)).loss.shape == (6,)


def test_the_knobs_mean_the_same_at_every_batch_size():
    """λ tuned for one batch size, converted for another: the same labels after a visit to every row."""
    logits, rows, given = batch()
    moved = []
    for size in (1, 2, 6):
        method = Pencil.from_paper(
            lambda_=500.0 * size, alpha=0.1, beta=0.4, batch_size=size, num_classes=5, form="printed"
        )
        parts = [
            method.step(logits[i : i + size], rows[i : i + size], given[i : i + size], moment("correction"))
            for i in range(0, 6, size)
        ]
        moved.append(torch.cat([part.rows for part in parts]))
    assert_close(moved[0], moved[1], rtol=0, atol=1e-12)
    assert_close(moved[0], moved[2], rtol=0, atol=1e-12)


def test_rows_start_at_equation_8_and_read_by_equation_7():
    method, given = Pencil(initial_gap=7.0), torch.tensor([0, 2])
    rows = method.start_rows(given, 3)
    assert method.row_width(3) == 3
    assert torch.equal(rows, start_label_logits(given, 3, 7.0))
    assert torch.equal(method.label_distribution(rows, given, 3), rows.softmax(1))


def test_a_method_cannot_be_changed_under_a_run():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Pencil().pull = 2.0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_rows_keep_their_mean_under_half_precision_logits(dtype):
    generator = torch.Generator().manual_seed(0)
    logits = (3 * torch.randn(256, 100, generator=generator)).to(dtype)
    given = torch.randint(100, (256,), generator=generator)
    rows = start_label_logits(given, 100)
    moved = Pencil(form="printed").step(logits, rows, given, moment("correction")).rows
    assert moved.dtype == torch.float32
    assert_close(moved.sum(1), rows.sum(1), rtol=0, atol=1e-4)


def test_rows_stay_finite_under_float16_logits_and_the_other_divergence():
    logits = torch.tensor([[30.0, 0.0, -30.0]], dtype=torch.float16)
    rows, given = start_label_logits(torch.tensor([1]), 3), torch.tensor([1])
    method = Pencil(direction="label_prediction")
    assert method.step(logits, rows, given, moment("correction")).rows.isfinite().all()


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"form": "paper"}, r"form: 'paper' is unknown; use one of printed, reference"),
        ({"direction": "label"}, r"direction: 'label' is unknown; use one of prediction_label, label_pred"),
        ({"pull": -1.0}, r"pull: -1\.0 must not be negative"),
        ({"pull": float("nan")}, r"pull: nan must be a number of at most 1,000,000"),
        ({"label_rate": 1e30}, r"label_rate: 1e\+30 must be a number of at most 1,000,000"),
        (
            {"label_rate": LinearSchedule(float("inf"))},
            r"label_rate: .* must be a number of at most 1,000,000",
        ),
        ({"entropy_weight": -0.1}, r"entropy_weight: -0\.1 must not be negative"),
        ({"shares": "even"}, r"shares: 'even' is unknown; use one of given, uniform"),
        ({"balance": -0.1}, r"balance: -0\.1 must not be negative"),
        ({"initial_gap": 0.0}, r"initial_gap: 0\.0 must be above 0"),
        ({"label_rate": -1.0}, r"label_rate: -1\.0 must not be negative"),
        ({"label_rate": LinearSchedule(1.0, -1.0)}, r"label_rate: .* must not be negative"),
        ({"label_rate": CosineSchedule(-1.0, 1.0)}, r"label_rate: .* must not be negative"),
        ({"label_rate": PiecewiseSchedule((1.0, -0.1, 1.0), (2, 4))}, r"label_rate: .* must not be negative"),
    ],
)
def test_a_method_refuses_knobs_without_meaning(knobs, message):
    """With κ < 0 both certificates would be false; with K <= 0 there is no gap to speak of."""
    with pytest.raises(ValueError, match=f"^{message}"):
        Pencil(**knobs)


def test_a_method_takes_the_knobs_at_the_edge_of_meaning():
    method = Pencil(pull=0.0, entropy_weight=0.0, label_rate=LinearSchedule(1.0, 0.0), initial_gap=1e-3)
    assert method.pull == 0
