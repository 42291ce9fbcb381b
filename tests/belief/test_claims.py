"""What may be claimed, against loops and in simulations with calibrated probabilities."""

import math

import pytest
import torch
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from pencil.belief import claims

CONFIDENCES = st.lists(st.floats(0, 1, width=32), max_size=40)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def falling(confidence):
    return torch.tensor(confidence, dtype=torch.float32).sort(descending=True).values


def excess(confidence, share, rows):
    """By how much the errors that are expected among the first rows are too many."""
    wrong = [max(1 - each, 1e-4) for each in confidence.double().tolist()[:rows]]
    return math.fsum(wrong) + math.sqrt(math.fsum(each * (1 - each) for each in wrong)) - share * rows


@settings(max_examples=300)
@drawn(CONFIDENCES, st.floats(0.01, 0.5))
def test_the_surest_rows_are_the_longest_prefix_that_holds(confidence, share):
    confidence = falling(confidence)
    rows = claims.surest(confidence, share)
    assert 0 <= rows <= len(confidence)
    assert rows == 0 or excess(confidence, share, rows) < 1e-9
    assert all(excess(confidence, share, more) > -1e-9 for more in range(rows + 1, len(confidence) + 1))


@drawn(CONFIDENCES, st.floats(0.01, 0.25), st.floats(1, 2))
def test_a_larger_share_replaces_no_fewer(confidence, share, times):
    confidence = falling(confidence)
    assert claims.surest(confidence, share) <= claims.surest(confidence, share * times)


@pytest.mark.parametrize("seed", range(4))
def test_the_surest_rows_equal_a_loop(seed):
    confidence = falling((1 - torch.rand(500, generator=generator(seed)) ** 3).tolist())
    expected = max((rows for rows in range(1, 501) if excess(confidence, 0.1, rows) <= 0), default=0)
    assert 0 < expected < 500
    assert claims.surest(confidence, 0.1) == expected


def test_few_rows_must_be_surer_than_many():
    assert claims.surest(torch.full((3,), 0.95), 0.1) == 0
    assert claims.surest(torch.full((300,), 0.95), 0.1) == 300
    assert claims.surest(torch.full((3,), 0.999), 0.1) == 3
    assert claims.surest(torch.tensor([]), 0.1) == 0


def test_the_surest_rows_have_the_asked_share_of_errors_in_simulations():
    over = 0
    for seed in range(200):
        random = generator(seed)
        confidence = falling((1 - 0.7 * torch.rand(400, generator=random) ** 2).tolist())
        rows = claims.surest(confidence, 0.1)
        wrong = torch.rand(400, generator=random) > confidence
        over += float(wrong[:rows].float().mean()) > 0.1
    assert over < 60  # a standard error is kept in reserve, so one in six


SHAPES = {
    "sure and wrong": lambda u: (u < 0.2) * 0.98 + 0.01,
    "even": lambda u: u,
    "mostly right": lambda u: u**6,
    "mostly wrong": lambda u: 1 - u**4,
    "at the limit": lambda u: torch.where(u < 0.5, 0.9, 0.05),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rows", [30, 300, 3000])
def test_at_least_so_many_are_wrong_by_calibrated_probabilities(shape, rows):
    claimed = []
    for seed in range(100):
        random = generator(seed)
        p_wrong = SHAPES[shape](torch.rand(rows, generator=random))
        wrong = torch.rand(rows, generator=random) < p_wrong
        claimed.append(claims.least_wrong(p_wrong))
        assert 0 <= claimed[-1] <= float(wrong.float().mean())
    if rows == 3000 and shape != "mostly right":
        assert min(claimed) > 0.05  # and the claim is not empty


def test_nothing_is_claimed_without_rows_that_are_sure_to_be_wrong():
    assert claims.least_wrong(torch.full((500,), 0.6)) == 0
    assert claims.least_wrong(torch.zeros(500)) == 0
    assert claims.least_wrong(torch.tensor([])) == 0
    assert claims.least_wrong(torch.ones(500)) > 0.8


def test_the_order_of_rows_does_not_change_what_is_claimed():
    p_wrong = torch.rand(300, generator=generator()) ** 0.2
    assert claims.least_wrong(p_wrong) == claims.least_wrong(p_wrong.flip(0)) > 0


@drawn(st.lists(st.booleans(), max_size=30))
def test_the_longest_prefix_ends_at_the_last_place_that_holds(holds):
    expected = max((place + 1 for place, each in enumerate(holds) if each), default=0)
    assert claims.longest(torch.tensor(holds, dtype=torch.bool)) == expected


CLASSES, CLEAN, WRONG = 3, 200, 60


def labelled(blind):
    """Rows of class 0: clean ones, and some that were given 1, at random or as their features are nearest to it."""
    lean = torch.randn(CLEAN + WRONG, generator=generator())  # towards class 1 against class 2
    order = lean.argsort(descending=True)
    wrong = order[:WRONG] if not blind else torch.randperm(CLEAN + WRONG, generator=generator(1))[:WRONG]
    given = torch.zeros(CLEAN + WRONG, dtype=torch.long)
    given[wrong] = 1
    scores = torch.stack([torch.full_like(lean, 5.0), lean, -lean], 1)
    return scores.log_softmax(1), given, wrong


def test_errors_that_follow_the_class_alone_are_blind():
    log_f, given, wrong = labelled(True)
    assert claims.are_blind(log_f, given, torch.zeros_like(given), wrong)


def test_errors_that_follow_the_features_are_not_blind():
    log_f, given, wrong = labelled(False)
    assert not claims.are_blind(log_f, given, torch.zeros_like(given), wrong)


def test_a_few_errors_are_taken_to_be_blind():
    log_f, given, wrong = labelled(False)
    assert claims.are_blind(log_f, given, torch.zeros_like(given), wrong[:9])
    assert not claims.are_blind(log_f, given, torch.zeros_like(given), wrong[:10])
    assert claims.are_blind(log_f, given, torch.zeros_like(given), wrong[:0])


def test_classes_with_hardly_any_clean_row_are_not_compared():
    log_f, given, wrong = labelled(False)
    few = torch.cat([wrong, (given == 0).nonzero()[:4, 0]])
    assert claims.are_blind(
        log_f[few], given[few], torch.zeros(len(few), dtype=torch.long), torch.arange(WRONG)
    )


def test_rows_without_a_label_do_not_count_as_errors_that_follow_the_features():
    _log_f, given, wrong = labelled(False)
    lean = torch.where(given == 1, 4.0, -4.0)  # nearest to the last class, which is nobody's label
    towards_the_last = torch.stack([torch.full_like(lean, 5.0), -lean, lean], 1).log_softmax(1)
    unlabelled = given.masked_fill(given == 1, -1)
    assert claims.are_blind(towards_the_last, unlabelled, torch.zeros_like(given), wrong)


@pytest.mark.parametrize(("chance", "doubt"), [(0.9, claims.SLIGHT_DOUBT), (0.5, claims.DOUBT)])
def test_an_unsure_read_out_leaves_more_doubt(chance, doubt):
    log_f = torch.tensor([chance, 1 - chance]).log().expand(50, 2)
    assert claims.doubt_of(log_f) == doubt
    assert 0 < claims.SLIGHT_DOUBT < claims.DOUBT < 0.2


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("identified", [False, True])
@pytest.mark.parametrize("many_rows", [False, True])
def test_labels_may_be_replaced_if_all_tests_pass_and_else_a_reason_is_given(known, identified, many_rows):
    tests = claims.Tests(known, identified, many_rows)
    assert tests.passed == (known and identified and many_rows)
    assert bool(tests.reason) != tests.passed


def test_the_reasons_differ():
    failed = [claims.Tests(*(place != other for other in range(3))) for place in range(3)]
    assert len({tests.reason for tests in failed}) == 3
