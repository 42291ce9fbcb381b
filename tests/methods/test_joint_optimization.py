"""Joint optimisation: the three losses against naive loops, labels that are averages of the last predictions."""

import math

import pytest
import torch

from pencil.algorithm import cross_entropy, three_phases
from pencil.methods import JointOptimization
from pencil.methods.joint_optimization import prior_loss


def random_logits(seed):
    return torch.randn(5, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_the_loss_is_that_of_a_naive_loop(logits, given, moment, softmax, as_lists):
    method = JointOptimization(prior_weight=1.2, entropy_weight=0.8, prior=(0.5, 0.3, 0.2))
    step = method.step(logits, method.start_rows(given, 3), given, moment("backbone"))
    probs = [softmax(row) for row in logits.tolist()]
    mean = [sum(column) / 5 for column in zip(*probs, strict=True)]
    prior = -sum(p * math.log(m) for p, m in zip((0.5, 0.3, 0.2), mean, strict=True))
    for index, (label, f) in enumerate(zip(as_lists(given), probs, strict=True)):
        entropy = -sum(value * math.log(value) for value in f)
        loss = -sum(y * math.log(value) for y, value in zip(label, f, strict=True))
        expected = loss + 1.2 * prior + 0.8 * entropy
        assert float(step.loss[index].detach()) == pytest.approx(expected, rel=1e-6)


def test_without_prior_and_entropy_the_backbone_is_cross_entropy(logits, given, moment):
    method = JointOptimization(prior_weight=0.0, entropy_weight=0.0)
    step = method.step(logits, method.start_rows(given, 3), given, moment("backbone"))
    torch.testing.assert_close(step.loss, cross_entropy(logits, given))


def test_the_prior_term_is_least_where_the_mean_prediction_is_the_prior():
    logits = torch.zeros(4, 3, requires_grad=True)
    prior_loss(logits, torch.full((3,), 1 / 3)).backward()
    assert logits.grad.abs().max() < 1e-7
    skewed = torch.tensor([[3.0, 0.0, 0.0]] * 4)
    assert prior_loss(skewed, torch.full((3,), 1 / 3)) > prior_loss(logits, torch.full((3,), 1 / 3))


@pytest.mark.parametrize("kind", ["soft", "hard"])
def test_a_label_is_the_average_of_the_last_predictions(given, moment, kind):
    """Two backbone and four correction visits with a window of three, against a plain list: the first rest."""
    method = JointOptimization(labels=kind, window=3, entropy_weight=0.0)
    rows, seen = method.start_rows(given, 3).double(), []
    for visit, phase in enumerate(["backbone"] * 2 + ["correction"] * 4):
        logits = random_logits(visit)
        step = method.step(logits, rows, given, moment(phase))
        used = rows[:, :3]
        if visit >= 3:
            used = torch.stack(seen[-3:]).mean(dim=0)
            used = used if kind == "soft" else torch.eye(3, dtype=torch.float64)[used.argmax(dim=1)]
        torch.testing.assert_close(step.loss, cross_entropy(logits, used))
        rows = step.rows
        seen.append(logits.softmax(dim=1))
    label = torch.stack(seen[-3:]).mean(dim=0)
    if kind == "hard":
        label = torch.eye(3, dtype=torch.float64)[label.argmax(dim=1)]
    torch.testing.assert_close(method.label_distribution(rows, given, 3), label)


def test_the_backbone_keeps_the_given_label(given, moment, as_lists):
    method = JointOptimization()
    rows = method.step(random_logits(0), method.start_rows(given, 3).double(), given, moment("backbone")).rows
    expected = torch.tensor(as_lists(given), dtype=torch.float64)
    torch.testing.assert_close(method.label_distribution(rows, given, 3), expected)


def test_without_a_backbone_the_first_visit_believes_the_given_label(given, moment):
    method = JointOptimization(entropy_weight=0.0)
    step = method.step(random_logits(0), method.start_rows(given, 3).double(), given, moment())
    torch.testing.assert_close(step.loss, cross_entropy(random_logits(0), given))


def test_finetuning_is_cross_entropy_with_labels_at_rest(logits, given, moment):
    method = JointOptimization(window=2, prior_weight=1.0)
    rows = torch.rand(5, 9, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    step = method.step(logits, rows, given, moment("finetune"))
    torch.testing.assert_close(step.loss, cross_entropy(logits, rows[:, :3]))
    assert step.rows is None


@pytest.mark.parametrize(
    "settings",
    [
        {"labels": "firm"},
        {"window": 0},
        {"prior_weight": -1.0},
        {"entropy_weight": -1.0},
        {"prior": (0.5, 0.4)},
        {"prior": (1.5, -0.5)},
    ],
    ids=str,
)
def test_senseless_settings_are_refused_by_name(settings):
    with pytest.raises(ValueError, match=f"^{next(iter(settings))}: "):
        JointOptimization(**settings)


def test_a_prior_of_other_classes_is_refused_before_training(given):
    method = JointOptimization(prior_weight=1.0, prior=(0.5, 0.5))
    with pytest.raises(ValueError, match=r"prior: .* must have one frequency for each of 3 classes"):
        method.start_rows(given, 3)


@pytest.mark.parametrize(("epochs", "warns"), [((3, 4, 2), True), ((5, 5, 2), False), ((3, 0, 2), False)])
def test_a_window_that_never_fills_is_told(epochs, warns):
    phases = three_phases(*epochs, learning_rate=0.1, finetune_rate=0.01)
    found = JointOptimization(window=10).warnings(phases, hard=True)
    assert [
        words.startswith("method.window = 10: no label will move, because only 7") for words in found
    ] == [True] * warns
