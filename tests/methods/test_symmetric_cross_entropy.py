"""SCE against a naive loop, and the cases it contains."""

import math

import pytest
import torch

from pencil.algorithm import cross_entropy
from pencil.methods import SymmetricCrossEntropy
from pencil.methods.symmetric_cross_entropy import reverse_cross_entropy


def test_the_loss_is_that_of_a_naive_loop(logits, given, moment, softmax, as_lists):
    method = SymmetricCrossEntropy(cross_weight=0.3, reverse_weight=0.8, log_zero=-4.0)
    naive = []
    for label, row in zip(as_lists(given), logits.tolist(), strict=True):
        pairs = list(zip(label, softmax(row), strict=True))
        forward = -sum(y * math.log(f) for y, f in pairs)
        reverse = -sum(f * (math.log(y) if y > math.exp(-4) else -4.0) for y, f in pairs)
        naive.append(0.3 * forward + 0.8 * reverse)
    step = method.step(logits, method.start_rows(given, 3), given, moment())
    assert step.loss.tolist() == pytest.approx(naive, rel=1e-6)  # a hard ŷ begins as float32
    assert step.rows is None


def test_without_the_reverse_term_it_is_cross_entropy(logits, given, moment):
    method = SymmetricCrossEntropy(cross_weight=1.0, reverse_weight=0.0)
    loss = method.step(logits, method.start_rows(given, 3), given, moment()).loss
    assert torch.equal(loss, cross_entropy(logits, given))


def test_the_reverse_term_of_a_hard_label_is_the_mean_absolute_error(logits):
    given = torch.tensor([0, 2, 1, 2, 0])
    right = logits.softmax(dim=1).gather(1, given[:, None])[:, 0]
    torch.testing.assert_close(reverse_cross_entropy(logits, given, -4.0), 4 * (1 - right))


def test_nothing_is_kept_and_the_given_labels_are_believed(given, as_lists):
    method = SymmetricCrossEntropy()
    assert method.row_width(3) == 0
    believed = method.label_distribution(method.start_rows(given, 3), given, 3)
    assert believed.tolist() == as_lists(given)


@pytest.mark.parametrize("settings", [{"cross_weight": -1.0}, {"reverse_weight": -0.1}, {"log_zero": 0.0}])
def test_senseless_settings_are_refused_by_name(settings):
    with pytest.raises(ValueError, match=f"^{next(iter(settings))}: "):
        SymmetricCrossEntropy(**settings)
