"""The curve of suggestions that are right, from made answers."""

import itertools

import pytest
import torch
from hypothesis import given as drawn
from hypothesis import strategies as st

from pencil.belief.answers import (
    FEWEST,
    LEAST,
    Curve,
    Ranking,
    doubtful,
    evidence,
    informed,
    others_of,
    released,
)

ROWS = 600


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def suggestions(rows=ROWS):
    """Confidences in falling order, and what the curve depends on."""
    stated = torch.linspace(0.98, 0.22, rows)
    return stated, evidence(stated)


def ranking_of(rows, seed=0):
    """A ranking of rows in any order, all given class 0 and suggested class 1."""
    numbers = torch.randperm(rows, generator=generator(seed))
    return Ranking.of(numbers, torch.ones(rows, dtype=torch.long), torch.linspace(0.98, 0.22, rows))


def evenly(rows, number, known=()):
    ranking = Ranking(rows, torch.zeros_like(rows), torch.linspace(1, 0, len(rows)))
    return ranking.spread(number, torch.tensor(known, dtype=torch.long))


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


def test_evidence_is_the_stated_confidence_and_its_rank():
    stated = torch.tensor([1.0, 0.9, 0.5, 0.3])
    x = evidence(stated)
    assert x.shape == (4, 3)
    assert bool(x.isfinite().all())
    torch.testing.assert_close(x[1:, 1].sigmoid(), stated[1:].double())
    assert bool((x[:, 0] == 1).all())
    assert x[:, 2].tolist() == sorted(x[:, 2].tolist())


def test_without_answers_the_chance_is_the_stated_confidence():
    stated, x = suggestions()
    curve = Curve(x[:0], torch.zeros(0, dtype=torch.bool))
    torch.testing.assert_close(curve.chance(x), stated.double(), rtol=1e-4, atol=1e-4)


def test_answers_that_agree_with_the_stated_confidence_change_little():
    changes = []
    for seed in range(8):
        stated, x = suggestions()
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
        stated, x = suggestions()
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


def test_a_ranking_holds_the_likely_rows_the_surest_first():
    stated = torch.tensor([0.3, LEAST, 0.9, 0.5]).repeat(FEWEST)
    found = Ranking.of(torch.arange(len(stated)) + 9, torch.tensor([3, 2, 1, 0]).repeat(FEWEST), stated)
    assert not found.raised
    assert len(found.rows) == 3 * FEWEST
    assert found.rows[[0, FEWEST, -FEWEST]].tolist() == [11, 12, 9]
    assert found.other[[0, FEWEST, -FEWEST]].tolist() == [1, 0, 3]
    assert found.spread(3, torch.tensor([9])).tolist() == [11 + 4 * 14, 12 + 4 * 14, 9 + 4 * 15]


def test_where_hardly_any_row_is_likely_the_likeliest_quarter_is_ranked():
    stated = torch.tensor([1e-7, 3e-7, 2e-7, 0.0, 1e-6, 1e-8, 1e-9, 0.0] * 4)
    rows = doubtful(stated)
    assert rows.tolist() == sorted(list(range(4, 32, 8)) + list(range(1, 32, 8)))
    found = Ranking.of(rows, torch.zeros_like(rows), stated[rows])
    assert found.raised
    assert found.rows.tolist() == [*range(4, 32, 8), *range(1, 32, 8)]
    odds = found.stated.double().logit().exp()
    assert float(found.stated[-1]) == pytest.approx(LEAST, rel=1e-4)
    assert float(odds[0] / odds[-1]) == pytest.approx(1e-6 / 3e-7, rel=1e-3)
    assert not len(Ranking.of(rows, rows, torch.zeros(len(rows))).rows)


def test_the_other_class_is_the_likeliest_besides_the_given_one():
    posterior = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7], [0.4, 0.5, 0.1]])
    stated, other = others_of(posterior, torch.tensor([0, 0, -1]))
    assert other.tolist() == [1, 2, 1]
    torch.testing.assert_close(stated, torch.tensor([0.2, 0.7, 0.5]))
    assert float(posterior.sum()) == pytest.approx(3)


@drawn(st.integers(0, 50), st.floats(0, 1), st.floats(0, 1))
def test_an_informed_posterior_has_the_chance_and_shares_the_rest_as_told(seed, chance, kept):
    posterior = torch.rand(5, 4, generator=generator(seed)) + 0.01
    posterior /= posterior.sum(1, keepdim=True)
    given = torch.tensor([0, 1, 2, 3, -1])
    other = others_of(posterior, given)[1]
    found = informed(posterior, given, other, torch.full((5,), chance), kept)
    torch.testing.assert_close(found.sum(1), torch.ones(5))
    torch.testing.assert_close(found.gather(1, other[:, None]), torch.full((5, 1), chance))
    right = found[:4].gather(1, given[:4, None])
    torch.testing.assert_close(right, torch.full((4, 1), kept * (1 - chance)), rtol=1e-4, atol=1e-6)
    for row in range(5):
        rest = [label for label in range(4) if label not in (int(given[row]), int(other[row]))]
        ratio = (found / posterior)[row, rest]
        torch.testing.assert_close(ratio, ratio[:1].expand(len(rest)), rtol=1e-4, atol=1e-5)


def test_with_two_classes_the_given_one_has_the_rest():
    posterior = torch.tensor([[0.3, 0.7], [0.9, 0.1]])
    found = informed(posterior, torch.tensor([0, 0]), torch.tensor([1, 1]), torch.tensor([0.4, 0.4]), 0.5)
    torch.testing.assert_close(found, torch.tensor([[0.6, 0.4], [0.6, 0.4]]))


def test_right_suggestions_release_the_others_once_there_are_enough():
    ranking = ranking_of(ROWS)
    rows = ranking.spread(FEWEST, torch.tensor([], dtype=torch.long)).tolist()
    given = torch.zeros(FEWEST)
    found = released(ranking, given, dict.fromkeys(rows, 1), 0.1)
    assert found.rows.tolist() == list(range(ROWS))
    assert int(found.chosen.sum()) > ROWS / 2
    assert not bool(found.chosen[rows].any())  # these are as people said
    assert not bool(released(ranking, given, dict.fromkeys(rows, 0), 0.1).chosen.any())
    assert released(ranking, given[1:], dict.fromkeys(rows[1:], 1), 0.1) is None


def test_answers_about_other_rows_say_nothing():
    assert (
        released(ranking_of(ROWS), torch.zeros(FEWEST), dict.fromkeys(range(ROWS, ROWS + FEWEST), 1), 0.1)
        is None
    )


def test_what_is_said_about_consecutive_rows_is_found_by_their_places():
    found = released(ranking_of(50), torch.zeros(FEWEST), dict.fromkeys(range(FEWEST), 1), 0.1)
    places, some = found.within(10, 7)
    assert places.tolist() == list(range(7))
    assert torch.equal(some.chance, found.chance[10:17])
    places, some = found.within(48, 30)
    assert places.tolist() == [0, 1]
    assert len(found.within(90, 10)[0]) == 0


def test_very_many_rows_are_released_by_prefixes():
    stated, x = suggestions(9_001)
    curve, _ = answered(stated, x, stated)
    whole = suggestions(1_500)
    share = curve.released(x[ordered(curve, x)], 0.1, 0) / 9_001
    small = curve.released(whole[1][ordered(curve, whole[1])], 0.1, 0) / 1_500
    assert share == pytest.approx(small, abs=0.01)
