"""What may be claimed, against loops and in simulations with calibrated probabilities."""

import pytest
import torch
from hypothesis import given as drawn
from hypothesis import strategies as st

from pencil.belief import claims


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


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
@pytest.mark.parametrize("blind", [False, True])
def test_labels_may_be_replaced_if_all_checks_pass_and_else_a_reason_is_given(
    known, identified, many_rows, blind
):
    checks = claims.Checks(known, identified, many_rows, blind)
    assert checks.passed == (known and identified and many_rows and blind)
    assert bool(checks.reason) != checks.passed


def test_the_reasons_differ():
    failed = [claims.Checks(*(place != other for other in range(4))) for place in range(4)]
    assert len({checks.reason for checks in failed}) == 4
