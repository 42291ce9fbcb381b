"""Ranking scores and calibration against definitions that look at every pair, cut and order."""

from itertools import permutations
from statistics import fmean

import pytest
import torch
from hypothesis import given as forall
from hypothesis import settings
from hypothesis import strategies as st

from pencil.bench.ranking import (
    MEASURES,
    auroc,
    average_precision,
    expected_calibration_error,
    precision_at,
    ranked,
)

rows = st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=30)
few_rows = st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=5)


def tensors(pairs):
    scores, wrong = zip(*pairs, strict=True)
    return torch.tensor(scores) / 4, torch.tensor(wrong)


def naive_auroc(pairs):
    wrong = [score for score, is_wrong in pairs if is_wrong]
    right = [score for score, is_wrong in pairs if not is_wrong]
    wins = [(a > b) + (a == b) / 2 for a in wrong for b in right]
    return fmean(wins) if wins else None


def naive_average_precision(pairs):
    total, recall, result = sum(wrong for _, wrong in pairs), 0.0, 0.0
    if not total:
        return None
    for cut in sorted({score for score, _ in pairs}, reverse=True):
        above = [wrong for score, wrong in pairs if score >= cut]
        result += (sum(above) / total - recall) * fmean(above)
        recall = sum(above) / total
    return result


def naive_precision_at(pairs, budget):
    """The mean over all orders of the rows that are sorted by score."""
    shares = [
        fmean(wrong for _, wrong in sorted(order, key=lambda row: -row[0])[:budget])
        for order in permutations(pairs)
    ]
    return fmean(shares)


@forall(rows)
def test_auroc_counts_pairs(pairs):
    found = auroc(*tensors(pairs))
    assert found == pytest.approx(naive_auroc(pairs))


@forall(rows)
def test_average_precision_steps_over_cuts(pairs):
    assert average_precision(*tensors(pairs)) == pytest.approx(naive_average_precision(pairs))


@settings(max_examples=50, deadline=None)
@forall(few_rows, st.integers(1, 7))
def test_precision_at_a_budget_is_the_mean_over_orders_of_ties(pairs, budget):
    assert precision_at(*tensors(pairs), budget) == pytest.approx(naive_precision_at(pairs, budget))


@forall(rows, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(pairs, random):
    shuffled = list(pairs)
    random.shuffle(shuffled)
    for measure in (auroc, average_precision, lambda s, w: precision_at(s, w, 7)):
        assert measure(*tensors(pairs)) == pytest.approx(measure(*tensors(shuffled)))


@forall(rows)
def test_calibration_error_compares_bins(pairs):
    p, wrong = tensors(pairs)
    expected = 0.0
    for low in (0.0, 0.25, 0.5):  # four bins: 0, 1/4, 1/2, and 3/4 with 1
        each = [(a, b) for a, b in zip(p.tolist(), wrong.tolist(), strict=True) if a == low]
        expected += abs(sum(a - b for a, b in each))
    expected += abs(sum(a - b for a, b in zip(p.tolist(), wrong.tolist(), strict=True) if a >= 0.75))
    assert expected_calibration_error(p, wrong, bins=4) == pytest.approx(expected / len(p))


def test_by_hand():
    score = torch.tensor([0.9, 0.8, 0.8, 0.1])
    wrong = torch.tensor([True, True, False, False])
    assert auroc(score, wrong) == 3.5 / 4
    assert average_precision(score, wrong) == pytest.approx(1 / 2 * 1 + 1 / 2 * 2 / 3)
    assert precision_at(score, wrong, 1) == 1.0
    assert precision_at(score, wrong, 2) == 0.75
    assert precision_at(score, wrong, 100) == 0.5
    assert expected_calibration_error(score, wrong) == pytest.approx((0.1 + 0.6 + 0.1) / 4)


def test_scikit_learn_agrees():
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is optional")
    generator = torch.Generator().manual_seed(0)
    score = torch.randint(50, (500,), generator=generator) / 50
    wrong = torch.rand(500, generator=generator) < score
    assert auroc(score, wrong) == pytest.approx(metrics.roc_auc_score(wrong, score))
    assert average_precision(score, wrong) == pytest.approx(metrics.average_precision_score(wrong, score))


def test_all_measures_of_a_score():
    score, wrong = torch.arange(250.0), torch.arange(250) >= 200
    found = ranked(score, wrong)
    assert found == {
        "auroc": 1.0,
        "average_precision": 1.0,
        "precision_at_100": 0.5,
        "precision_at_1_percent": 1.0,
    }
    assert tuple(found) == MEASURES


def test_undefined_values_are_none_and_bad_scores_are_refused():
    score, none, every = torch.rand(3), torch.zeros(3, dtype=torch.bool), torch.ones(3, dtype=torch.bool)
    assert auroc(score, none) is None
    assert auroc(score, every) is None
    assert average_precision(score, none) is None
    assert average_precision(score, every) == 1.0
    assert precision_at(score, every, 0) is None
    assert precision_at(score[:0], every[:0], 5) is None
    assert expected_calibration_error(score[:0], every[:0]) is None
    with pytest.raises(ValueError, match="not a number"):
        auroc(torch.tensor([0.0, float("nan"), 1.0]), none)
    with pytest.raises(ValueError, match="both be"):
        auroc(score, none[:2])
