"""L_q against a naive loop and its two ends; the truncated algorithm chooses, keeps and refreshes its weights."""

import pytest
import torch

from pencil.algorithm import cross_entropy, three_phases
from pencil.methods import GeneralizedCrossEntropy
from pencil.methods.generalized_cross_entropy import generalized_cross_entropy


@pytest.mark.parametrize("q", [0.1, 0.7, 1.0])
def test_the_loss_is_that_of_a_naive_loop(logits, given, q, softmax, as_lists):
    naive = [
        sum(y * (1 - f**q) / q for y, f in zip(label, softmax(row), strict=True))
        for label, row in zip(as_lists(given), logits.tolist(), strict=True)
    ]
    assert generalized_cross_entropy(logits, given, q).tolist() == pytest.approx(naive, rel=1e-12)


def test_q_near_0_is_cross_entropy(logits, given):
    torch.testing.assert_close(
        generalized_cross_entropy(logits, given, 1e-12), cross_entropy(logits, given), rtol=1e-9, atol=1e-9
    )


def test_q_1_is_half_the_mean_absolute_error(logits, as_lists):
    given = torch.tensor([0, 2, 1, 2, 0])
    error = (logits.softmax(dim=1) - torch.tensor(as_lists(given))).abs().sum(dim=1)
    torch.testing.assert_close(generalized_cross_entropy(logits, given, 1.0), error / 2)


def test_without_threshold_nothing_is_kept(logits, given, moment):
    method = GeneralizedCrossEntropy()
    rows = method.start_rows(given, 3)
    assert rows.shape == (5, 0) == (5, method.row_width(3))
    step = method.step(logits, rows, given, moment())
    assert step.rows is None
    assert torch.equal(step.loss, generalized_cross_entropy(logits, given, 0.7))


LOGITS = torch.tensor([[3.0, 0.0], [0.0, 3.0], [0.2, 0.0], [-0.2, 0.0]])
GIVEN = torch.tensor([0, 0, 0, 0])  # probabilities of the given label: 0.95, 0.05, 0.55, 0.45


def test_examples_at_or_below_the_threshold_get_weight_0_in_refresh_epochs_only(moment):
    method = GeneralizedCrossEntropy(threshold=0.5, refresh=3)
    rows = method.start_rows(GIVEN, 2)
    assert rows.tolist() == [[1.0]] * 4
    for elapsed, expected in [
        (0.9, None),
        (2.9, None),
        (3.1, [1, 0, 1, 0]),
        (4.0, None),
        (6.9, [1, 0, 1, 0]),
    ]:
        found = method.step(LOGITS, rows, GIVEN, moment(elapsed=elapsed)).rows
        assert (None if found is None else found[:, 0].tolist()) == expected
    for phase in ("backbone", "finetune"):
        assert method.step(LOGITS, rows, GIVEN, moment(phase, 3.0)).rows is None


def test_an_example_left_out_costs_the_limit_and_teaches_nothing(moment):
    method = GeneralizedCrossEntropy(threshold=0.5, q=0.7)
    logits = LOGITS.clone().requires_grad_()
    step = method.step(logits, torch.tensor([[1.0], [0.0], [1.0], [0.0]]), GIVEN, moment("finetune"))
    step.loss.sum().backward()
    assert step.loss[[1, 3]].tolist() == pytest.approx([(1 - 0.5**0.7) / 0.7] * 2)
    assert (logits.grad[[1, 3]] == 0).all()
    assert (logits.grad[[0, 2]] != 0).all()


def test_fresh_weights_give_the_truncated_loss(moment):
    """The naive one: L_q where the given label is likelier than k, else L_q(k)."""
    method = GeneralizedCrossEntropy(threshold=0.5, q=0.7)
    rows = method.step(LOGITS, method.start_rows(GIVEN, 2), GIVEN, moment(elapsed=10.0)).rows
    naive = [(1 - max(f, 0.5) ** 0.7) / 0.7 for f in LOGITS.softmax(dim=1)[:, 0].tolist()]
    assert method.step(LOGITS, rows, GIVEN, moment()).loss.tolist() == pytest.approx(naive, rel=1e-6)


@pytest.mark.parametrize(
    "settings", [{"q": 0.0}, {"q": 1.1}, {"threshold": 0.0}, {"threshold": 1.0}, {"refresh": 0}]
)
def test_senseless_settings_are_refused_by_name(settings):
    with pytest.raises(ValueError, match=f"^{next(iter(settings))}: "):
        GeneralizedCrossEntropy(**settings)


@pytest.mark.parametrize(
    ("threshold", "epochs", "warns"), [(0.5, 10, True), (0.5, 11, False), (None, 2, False)]
)
def test_a_threshold_that_is_never_used_is_told(threshold, epochs, warns):
    phases = three_phases(2, epochs, 1, learning_rate=0.1, finetune_rate=0.01)
    found = GeneralizedCrossEntropy(threshold=threshold, refresh=10).warnings(phases, hard=True)
    assert ["method.threshold = 0.5 is never used" in words for words in found] == [True] * warns
