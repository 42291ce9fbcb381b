"""The rows worth showing: right, few, alike for any chunks, and not all of one kind."""

import pytest
import torch

from pencil.report.findings import find
from pencil.report.shortlist import SPARE, Shortlist
from pencil.results import RELABEL, REVIEW, Decided, judge

LEAST = 0.7


def found(belief, given, size, examples):
    ids = [f"id {row}" for row in range(len(given))]
    return find(judge(belief, given, LEAST, ids=ids).split(size), 6, examples=examples)


@pytest.fixture(scope="module")
def rows(random_rows):
    logits, given = random_rows(1000, 6, scale=3.0)
    return logits.softmax(dim=1), given


@pytest.mark.parametrize("size", [13, 100, 5000])
def test_the_lists_do_not_depend_on_the_chunks(rows, size):
    assert found(*rows, size, 10).corrections == found(*rows, 1000, 10).corrections
    assert found(*rows, size, 10).reviews == found(*rows, 1000, 10).reviews


def test_corrections_are_the_surest_to_the_percent(rows):
    belief, given = rows
    best = belief.max(dim=1)
    relabel = judge(belief, given, LEAST, ids=range(len(given))).verdict == RELABEL
    expected = sorted((100 * best.values[relabel]).round().tolist(), reverse=True)[:10]
    cases = found(belief, given, 300, 10).corrections
    assert [round(100 * case.confidence) for case in cases] == expected
    for case in cases:
        assert case.id == f"id {case.row}"
        assert case.given == int(given[case.row])
        assert case.suggested == int(best.indices[case.row])
        assert case.confidence == float(best.values[case.row])
        assert case.verdict == "relabel"


def test_reviews_are_the_least_sure_to_the_percent(rows):
    belief, given = rows
    unsure = judge(belief, given, LEAST, ids=range(len(given))).verdict == REVIEW
    expected = sorted((100 * (1 - belief.amax(dim=1)[unsure])).round().tolist(), reverse=True)[:10]
    cases = found(belief, given, 300, 10).reviews
    assert [round(100 * (1 - case.confidence)) for case in cases] == expected
    assert {case.verdict for case in cases} == {"review"}


def test_among_equally_sure_rows_different_confusions_come_first():
    given = torch.zeros(500, dtype=torch.long)
    given[490:] = torch.tensor([1, 2, 3, 4, 5] * 2)
    suggested = (given + 1) % 6
    belief = torch.full((500, 6), 0.002).scatter_(1, suggested[:, None], 0.99)
    cases = found(belief, given, 500, 30).corrections
    assert {case.given for case in cases[:6]} == set(range(6))


def test_few_rows_are_held_at_a_time(rows):
    belief, given = rows
    shortlist = Shortlist(RELABEL, 4)
    for first in range(0, 1000, 500):
        part = slice(first, first + 500)
        judged = judge(belief[part], given[part], LEAST, ids=[str(row) for row in range(500)], first=first)
        shortlist.add(judged, judged.confidence)
        assert len(shortlist._held) <= SPARE * 4
    assert len(shortlist.cases()) == 4


def test_decided_rows_are_not_shown_again(rows):
    belief, given = rows
    ids = [str(row) for row in range(1000)]
    decision = torch.where(torch.arange(1000) % 2 == 0, 1, 0)  # accepted, or undecided
    label = torch.where(decision == 1, (given + 1) % 6, -1)
    judged = judge(belief, given, LEAST, ids=ids, decided=Decided(decision, label))
    shown = find([judged], 6, examples=1000)
    assert shown.corrections
    assert all(case.row % 2 for case in [*shown.corrections, *shown.reviews])
