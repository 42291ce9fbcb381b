"""Signs of harm in the metrics of a run: when they count, and when they are chance."""

import pytest
import torch
from hypothesis import given as forall
from hypothesis import settings
from hypothesis import strategies as st

from pencil.algorithm import cut
from pencil.engine.alarms import (
    AlarmActions,
    collapse,
    drift,
    found,
    gain,
    lost_share,
    not_finite,
    standard_error,
    worse_labels,
)


def epochs(scores, phase="correction", **values):
    return [
        {"epoch": number, "phase": phase, "validation_accuracy": score, **values}
        for number, score in enumerate(scores, 1)
    ]


def test_a_lasting_fall_is_drift_and_names_better_features_first():
    alarm = drift(epochs([0.6, 0.7, 0.5, 0.5, 0.49]), held_out=1000)
    assert "fell from 70.0 % in epoch 2 to 50.0 %" in alarm.words
    assert alarm.remedy.startswith("use better features: for images or texts, train with --embed")


@pytest.mark.parametrize(
    "scores",
    [
        [0.7, 0.5, 0.5],  # too few epochs
        [0.7, 0.5, 0.5, 0.69],  # one good epoch among the last three
        [0.7, 0.68, 0.68, 0.68],  # less than three points
        [0.5, 0.6, 0.7, 0.8],
        [0.7, 0.5, 0.5, None],  # not evaluated
    ],
)
def test_other_courses_are_no_drift(scores):
    assert drift(epochs(scores), held_out=100_000) is None


def test_a_few_held_out_examples_prove_nothing():
    """Two images that were right and are wrong now: as likely as not chance."""
    assert drift(epochs([1.0, 0.5, 0.5, 0.5]), held_out=2) is None
    assert drift(epochs([1.0, 0.0, 0.0, 0.0]), held_out=2) is None
    assert drift(epochs([0.7, 0.6, 0.6, 0.6]), held_out=100) is None
    assert drift(epochs([0.7, 0.6, 0.6, 0.6]), held_out=1000) is not None


def test_the_fall_is_corrected_for_the_noise_of_the_held_out_labels():
    """Two points on labels of which 60 % are wrong are five points of true accuracy."""
    scores = [0.36, 0.34, 0.34, 0.34]
    assert drift(epochs(scores), held_out=100_000) is None
    assert drift(epochs(scores, noise_rate=0.6), held_out=100_000) is not None


@forall(st.floats(0, 1), st.integers(1, 10_000))
def test_equal_scores_never_differ_by_more_than_chance(score, rows):
    assert standard_error(score, score, rows) > 0
    assert drift(epochs([score] * 6), rows) is None


def test_the_gain_counts_changed_labels_by_their_probability():
    posterior = torch.tensor([[0.9, 0.1, 0.0], [0.2, 0.7, 0.1], [0.5, 0.3, 0.2]])
    given, suggested = torch.tensor([1, 1, 0]), torch.tensor([0, 0, 0])
    found = gain(lambda indices: posterior[indices], given, suggested, 3)
    assert found[0] == pytest.approx((0.9 - 0.1) + (0.2 - 0.7))
    assert found[1] == pytest.approx((1.0 - 0.8**2) + (0.9 - 0.5**2))
    assert gain(lambda indices: posterior[indices], given, given, 3).tolist() == [0.0, 0.0]


def test_the_gain_of_cut_rows_is_that_of_what_they_represent():
    whole = torch.softmax(torch.randn(40, 12, generator=torch.Generator().manual_seed(0)), dim=1)
    rows = cut(whole, 4)
    given, suggested = (torch.randint(12, (40,), generator=torch.Generator().manual_seed(n)) for n in (1, 2))
    expected = gain(lambda indices: rows.dense()[indices], given, suggested, 12)
    torch.testing.assert_close(gain(lambda indices: rows[indices], given, suggested, 12), expected)


@settings(max_examples=20, deadline=None)
@forall(st.integers(0, 1000))
def test_the_gain_and_its_error_are_those_of_drawn_truths(seed):
    """Over truths drawn from the posterior, the mean and spread of the labels gained."""
    generator = torch.Generator().manual_seed(seed)
    posterior = torch.rand(6, 3, generator=generator)
    posterior /= posterior.sum(dim=1, keepdim=True)
    given, suggested = (torch.randint(3, (6,), generator=generator) for _ in range(2))
    truth = posterior.multinomial(4000, replacement=True, generator=generator)
    gained = ((truth == suggested[:, None]).double() - (truth == given[:, None]).double()).sum(dim=0)
    mean, variance = gain(lambda indices: posterior[indices], given, suggested, 3).tolist()
    assert mean == pytest.approx(float(gained.mean()), abs=0.15)
    assert variance == pytest.approx(float(gained.var()), rel=0.2, abs=0.01)


def test_labels_may_get_worse_by_the_estimate():
    def course(*gains, error=0.005):
        return [
            {"epoch": n, "phase": "correction", "labels_gain": each, "labels_gain_error": error}
            for n, each in enumerate(gains, 1)
        ]

    assert "10.0 points lower than in epoch 2" in worse_labels(course(0.0, 0.05, -0.05, -0.06, -0.07)).words
    assert "5.0 points lower than among the given labels" in worse_labels(course(-0.05, -0.06, -0.07)).words
    assert worse_labels(course(0.05, -0.05, -0.06)) is None  # the best of the last three is the best
    assert worse_labels(course(0.05, 0.03, 0.03, 0.03)) is None
    assert worse_labels(course(0.0, -0.05, -0.06, -0.07, error=0.02)) is None
    assert [alarm.name for alarm in found(course(-0.05, -0.06, -0.07), 0)] == ["worse_labels"]


def test_only_correction_raises_alarms():
    scores = [0.7, 0.5, 0.5, 0.5]
    assert [alarm.name for alarm in found(epochs(scores), 10_000)] == ["drift"]
    assert found(epochs(scores, phase="finetune"), 10_000) == []


def test_a_class_is_lost_when_next_to_nothing_of_its_share_is_left():
    given = torch.tensor([50.0, 50.0, 50.0, 50.0, 4.0])
    assert lost_share(given, given) == 0.0
    assert lost_share(given, given / 3) == 0.0  # shares count, not numbers
    assert (
        lost_share(given, torch.tensor([200.0, 0.0, 4.0, 0.0, 0.0])) == 0.75
    )  # the rare class is not judged
    assert lost_share(given, torch.tensor([100.0, 94.0, 6.0, 4.0, 0.0])) == 0.25
    assert lost_share(given, torch.zeros(5)) == 1.0
    assert lost_share(torch.tensor([9.0, 0.0]), torch.tensor([9.0, 0.0])) == 0.0  # one class cannot collapse


def test_lost_labels_are_a_collapse_at_once():
    alarm = collapse(epochs([None], label_classes_lost=0.5))
    assert alarm.words.startswith("the suggested labels collapsed to few classes: 50 % of the classes")
    assert "method.label_rate" in alarm.remedy
    assert collapse(epochs([None], label_classes_lost=0.4)) is None


def test_lost_predictions_are_a_collapse_if_they_last_and_were_there_before():
    def lost(*shares):
        return [{"phase": "correction", "predicted_classes_lost": share} for share in shares]

    assert collapse(lost(0.1, 0.6, 0.6, 0.6)).words.startswith("the predictions for held-out examples")
    assert collapse(lost(0.1, 0.6, 0.6)) is None
    assert collapse(lost(0.1, 0.6, 0.4, 0.6)) is None
    assert collapse(lost(0.6, 0.6, 0.6, 0.6)) is None  # a network that has just begun


def test_more_changes_than_the_estimate_allows():
    metrics = {"epoch": 5, "phase": "correction", "labels_changed": 30, "examples": 100}
    assert found([metrics], 0) == []
    assert [alarm.name for alarm in found([metrics | {"noise_rate_high": 0.25}], 0)] == ["changes"]
    assert found([metrics | {"noise_rate_high": 0.3}], 0) == []


def test_a_fault_ends_with_its_remedy():
    alarm = not_finite("the loss of example 'a: b' is not finite: lower the learning rate")
    assert (alarm.name, alarm.remedy) == ("not_finite", "lower the learning rate")
    assert alarm.words == "the loss of example 'a: b' is not finite"


def test_actions_are_checked():
    assert AlarmActions().restores
    assert not AlarmActions(collapse="report", drift="stop").restores
    with pytest.raises(ValueError, match="drift: 'explode' is unknown; use one of finish, stop, report"):
        AlarmActions(drift="explode")
    with pytest.raises(ValueError, match="not_finite: 'report' is unknown; use one of finish, stop"):
        AlarmActions(not_finite="report")
