"""The curve of suggestions that are right, from made answers."""

import itertools

import pytest
import torch
from hypothesis import given as drawn
from hypothesis import strategies as st

from pencil.belief.answers import Curve, evenly, evidence

ROWS = 600


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def suggestions(rows=ROWS, seed=0):
    """Confidences in falling order, and what the curve depends on."""
    random = generator(seed)
    stated = torch.linspace(0.98, 0.22, rows)
    return stated, evidence(stated, 0.5 * torch.randn(rows, generator=random) - 1)


def answered(stated, x, chance, number=60, seed=0):
    """The curve from answers about evenly spread rows, which are right with this chance (M,)."""
    at = evenly(torch.arange(len(stated)), number)
    right = torch.rand(len(stated), generator=generator(seed + 1000)) < chance
    return Curve(x[at], right[at]), right


@drawn(st.integers(0, 300), st.integers(1, 100))
def test_rows_are_spread_evenly(rows, number):
    found = evenly(torch.arange(rows) + 7, number).tolist()
    assert len(found) == len(set(found)) == min(rows, number)
    assert found == sorted(found)
    assert all(7 <= row < rows + 7 for row in found)
    gaps = [second - first for first, second in itertools.pairwise(found)]
    if gaps:
        assert max(gaps) - min(gaps) <= 1
        assert abs((found[0] - 7) - (rows + 6 - found[-1])) <= 1


def test_evidence_is_the_stated_confidence_its_rank_and_what_features_say():
    stated, unseen = torch.tensor([1.0, 0.9, 0.5, 0.3]), torch.tensor([-1.0, -2, -3, -6])
    x = evidence(stated, unseen)
    assert x.shape == (4, 4)
    assert bool(x.isfinite().all())
    torch.testing.assert_close(x[1:, 1].sigmoid(), stated[1:].double())
    assert bool((x[:, 0] == 1).all())
    assert x[:, 2].tolist() == sorted(x[:, 2].tolist())
    torch.testing.assert_close(x[:, 3], torch.tensor([2.0, 1, 0, -3], dtype=torch.float64))


def test_without_answers_the_chance_is_the_stated_confidence():
    stated, x = suggestions()
    curve = Curve(x[:0], torch.zeros(0, dtype=torch.bool))
    torch.testing.assert_close(curve.chance(x), stated.double(), rtol=1e-4, atol=1e-4)


def test_answers_that_agree_with_the_stated_confidence_change_little():
    changes = []
    for seed in range(8):
        stated, x = suggestions(seed=seed)
        curve, _ = answered(stated, x, stated, seed=seed)
        changes.append(float((curve.chance(x) - stated).abs().mean()))
    assert sum(changes) / len(changes) < 0.1
    assert max(changes) < 0.2


@pytest.mark.parametrize("chance", [1.0, 0.5, 0.0])
def test_many_answers_are_followed_against_the_stated_confidence(chance):
    stated, x = suggestions()
    curve, _ = answered(stated, x, torch.full((ROWS,), chance), number=300)
    found = curve.chance(x)
    if chance == 0.5:
        assert float((found - 0.5).abs().mean()) < 0.1
    else:
        assert float((found - chance).abs().mean()) < 0.12
        assert float((found - chance).abs().max()) < 0.5


def test_more_answers_are_followed_more():
    stated, x = suggestions()
    found = [
        float(answered(stated, x, torch.ones(ROWS), number=number)[0].chance(x).mean())
        for number in (5, 30, 300)
    ]
    assert float(stated.mean()) < found[0] < found[1] < found[2]


def test_what_the_features_say_is_learned_from_answers():
    random = generator(5)
    stated, unseen = torch.full((ROWS,), 0.5), 2 * torch.randn(ROWS, generator=random)
    x = evidence(stated, unseen)
    curve = Curve(x[:200], unseen[:200] > 0)
    chance = curve.chance(x[200:])
    assert float(chance[unseen[200:] > 1].min()) > 0.7
    assert float(chance[unseen[200:] < -1].max()) < 0.3


def ordered(curve, x):
    return curve.chance(x).argsort(descending=True, stable=True)


def test_a_larger_share_releases_no_fewer():
    stated, x = suggestions()
    curve, _ = answered(stated, x, stated)
    order = ordered(curve, x)
    found = [curve.released(x[order], share, 0) for share in (0.01, 0.05, 0.1, 0.2, 0.4, 0.9)]
    assert found == sorted(found)
    assert 0 < found[2] < found[-1] == ROWS


def test_labels_that_people_replaced_themselves_allow_more():
    stated, x = suggestions()
    curve, _ = answered(stated, x, stated)
    order = ordered(curve, x)
    assert curve.released(x[order], 0.1, 100) > curve.released(x[order], 0.1, 0)


def test_nothing_is_released_where_suggestions_are_wrong():
    stated, x = suggestions()
    curve, _ = answered(stated, x, torch.zeros(ROWS))
    assert curve.released(x[ordered(curve, x)], 0.1, 0) == 0
    assert curve.released(x[:0], 0.1, 0) == 0


def test_all_is_released_where_suggestions_are_right():
    stated, x = suggestions()
    curve, _ = answered(stated, x, torch.ones(ROWS), number=300)
    assert curve.released(x[ordered(curve, x)], 0.1, 0) == ROWS


def test_released_labels_have_the_asked_share_of_errors_in_simulations():
    over, released = 0, 0
    for seed in range(60):
        stated, x = suggestions(seed=seed)
        curve, right = answered(stated, x, stated**2, seed=seed)  # less sure than stated
        order = ordered(curve, x)
        rows = curve.released(x[order], 0.2, 0)
        over += rows > 0 and float((~right[order[:rows]]).float().mean()) > 0.2
        released += rows
    assert over < 24  # the quantile is 0.75
    assert released > 60 * 20


def test_the_same_answers_release_the_same():
    stated, x = suggestions()
    one, other = (answered(stated, x, stated)[0] for _ in range(2))
    assert torch.equal(one.chance(x), other.chance(x))
    torch.randn(7)  # whatever else is drawn
    assert one.released(x, 0.1, 0) == other.released(x, 0.1, 0) == one.released(x, 0.1, 0)
