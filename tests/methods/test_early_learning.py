"""ELR against a naive loop; the target is the running average of predictions."""

import math

import pytest
import torch

from pencil.algorithm import cross_entropy
from pencil.methods import EarlyLearning

TARGETS = torch.tensor(
    [[0.1, 0.2, 0.3], [0.0, 0.0, 0.0], [0.9, 0.0, 0.0], [0.2, 0.2, 0.2], [0.0, 0.5, 0.5]], dtype=torch.float64
)


def test_loss_and_target_are_those_of_a_naive_loop(logits, given, moment, softmax, as_lists):
    step = EarlyLearning(regularization=3.0, momentum=0.7).step(logits, TARGETS, given, moment())
    for index, (label, row) in enumerate(zip(as_lists(given), logits.tolist(), strict=True)):
        probs = softmax(row)
        target = [0.7 * t + 0.3 * f for t, f in zip(TARGETS[index].tolist(), probs, strict=True)]
        overlap = sum(t * f for t, f in zip(target, probs, strict=True))
        loss = -sum(y * math.log(f) for y, f in zip(label, probs, strict=True)) + 3 * math.log(1 - overlap)
        assert float(step.loss[index].detach()) == pytest.approx(loss, rel=1e-10)
        assert step.rows[index].tolist() == pytest.approx(target, rel=1e-12)


def test_lambda_0_is_cross_entropy(logits, given, moment):
    step = EarlyLearning(regularization=0.0).step(logits, TARGETS, given, moment())
    assert torch.equal(step.loss, cross_entropy(logits, given))


def test_the_target_carries_no_gradient(logits, given, moment):
    """dL/dz = f - ŷ + λ g, g_k = f_k <t, f> (1 - t_k / <t, f>) / (1 - <t, f>) with t held fixed (the paper's lemma)."""
    step = EarlyLearning(regularization=2.0).step(logits, TARGETS, given, moment())
    step.loss.sum().backward()
    probs, target = logits.detach().softmax(dim=1), step.rows
    overlap = (target * probs).sum(dim=1, keepdim=True)
    pull = probs * (overlap - target) / (1 - overlap)
    label = given if given.dim() == 2 else torch.eye(3, dtype=torch.float64)[given]
    torch.testing.assert_close(logits.grad, probs - label + 2.0 * pull)


def test_a_certain_prediction_that_meets_its_target_stays_finite(moment):
    logits = torch.tensor([[200.0, 0.0]], requires_grad=True)
    step = EarlyLearning().step(logits, torch.tensor([[1.0, 0.0]]), torch.tensor([1]), moment())
    step.loss.sum().backward()
    assert torch.isfinite(step.loss).all()
    assert torch.isfinite(logits.grad).all()


def test_belief_is_the_normalised_target_and_before_a_visit_the_given_label(given, as_lists):
    method = EarlyLearning()
    start = method.start_rows(given, 3)
    assert start.shape == (5, method.row_width(3))
    assert not start.any()
    believed = method.label_distribution(TARGETS, given, 3)
    assert believed[0].tolist() == pytest.approx([1 / 6, 2 / 6, 3 / 6])
    assert believed[1].tolist() == as_lists(given)[1]


@pytest.mark.parametrize("settings", [{"regularization": -1.0}, {"momentum": 1.0}, {"momentum": -0.1}])
def test_senseless_settings_are_refused_by_name(settings):
    with pytest.raises(ValueError, match=f"^{next(iter(settings))}: "):
        EarlyLearning(**settings)
