"""What follows from a belief: the verdicts of its suggestions, and how sure they are."""

import pytest
import torch

from pencil.belief import Belief, Checks
from pencil.belief.belief import surely
from pencil.belief.claims import LessDoubt, doubted
from pencil.results import RELABEL, VerdictRule
from pencil.results.judged import judge_all

ROWS, CLASSES = 400, 4


def posterior_of(seed, classes=CLASSES):
    """Rows whose given class is doubted more or less, and the given classes."""
    random = torch.Generator().manual_seed(seed)
    posterior = torch.rand(ROWS, classes + 1, generator=random) ** 8 + 1e-4
    posterior[:, -1] *= 0.1
    return posterior / posterior.sum(1, keepdim=True), torch.randint(classes, (ROWS,), generator=random)


def belief_of(seed, *, doubt=0.0, passed=True):
    posterior, given = posterior_of(seed)
    stated = doubted(posterior, given, doubt)
    return Belief(given, stated, posterior[:, :-1].argmax(1), Checks(True, passed, True))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("share", [0.02, 0.1, 0.3])
def test_the_rows_that_are_replaced_are_those_that_the_label_table_replaces(seed, share):
    posterior, given = posterior_of(seed)
    judged = judge_all(
        posterior[:, :-1], given, VerdictRule(max_false_relabels=share), ids=[str(row) for row in range(ROWS)]
    )
    assert torch.equal(surely(posterior, given, share), judged.verdict == RELABEL)


def test_a_row_without_a_label_gets_one_if_it_is_sure():
    posterior, given = posterior_of(0)
    some = torch.where(torch.arange(ROWS) % 2 == 0, -1, given)
    sure = surely(posterior, some)
    least = posterior[sure].amax(1).min()
    assert bool(sure[::2].any())
    assert bool((posterior[sure & (some < 0)].amax(1) >= least).all())


def test_doubt_makes_suggestions_less_sure_and_leaves_the_given_label():
    plain, less = belief_of(1), belief_of(1, doubt=0.05)
    torch.testing.assert_close(less.posterior.sum(1), torch.ones(ROWS))
    torch.testing.assert_close(plain.posterior, posterior_of(1)[0])
    torch.testing.assert_close(less.decided().p_wrong, plain.decided().p_wrong)
    changed = plain.decided().suggested != plain.given
    assert bool((less.decided().confidence <= plain.decided().confidence + 1e-6)[changed].all())
    assert int(less.decided().replaced.sum()) < int(plain.decided().replaced.sum())


def test_nothing_is_replaced_or_claimed_if_a_test_fails():
    found = belief_of(2, passed=False).decided()
    assert not bool(found.replaced.any())
    assert found.at_least == 0


def test_answers_that_contradict_lower_what_is_claimed():
    belief = belief_of(3)
    rows = belief.ask(60).tolist()
    right = belief.answered({row: int(belief.given[row]) for row in rows}).decided()
    assert 0 <= right.at_least < belief.decided().at_least


def test_half_of_a_small_share_of_errors_is_for_doubt():
    posterior, given = posterior_of(1)
    less = doubted(posterior, given, 0.05)
    assert not bool(surely(less, given, 0.04).any())
    few, more = (int(surely(less, given, share, 0.05).sum()) for share in (0.06, 0.08))
    assert 0 < few < more
    assert torch.equal(surely(less, given, 0.1, 0.05), surely(less, given, 0.1))


@pytest.mark.parametrize("classes", [2, 3, 100])
def test_less_doubt_takes_back_what_doubt_took_and_no_more(classes):
    p = torch.linspace(1 / classes, 1, 20).double()
    right = torch.zeros(20)
    rows = torch.cat([p[:, None], ((1 - p) / max(classes - 2, 1))[:, None].expand(-1, classes - 1)], 1)
    rows[:, 1] = right
    rows = torch.cat([rows / rows.sum(1, keepdim=True), torch.zeros(20, 1)], 1)
    given = torch.ones(20, dtype=torch.long)
    stated = doubted(rows, given, 0.05)[:, 0]
    none = LessDoubt.of(0.05, 0.0, classes)
    assert torch.allclose(none.confidence(stated), rows[:, 0], atol=1e-6)
    assert torch.allclose(none.stated(none.confidence(stated)), stated, atol=1e-6)
    half = doubted(rows, given, 0.01)[:, 0]
    assert torch.allclose(LessDoubt.of(0.05, 0.02, classes).confidence(stated), half, atol=1e-6)
    assert torch.equal(LessDoubt.of(0.05, 0.1, classes).confidence(stated), stated)
