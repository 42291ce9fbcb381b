"""The order of the queue, against a sort that anybody can read."""

import pytest
import torch

from pencil.algorithm.top_rows import cut
from pencil.results import KEEP, RELABEL, REVIEW, judge
from pencil.review.queue import DOUBTFUL, SURE, VERDICTS_OF_PART, rows_by_doubt


def chunks(distribution, given, size, trusted=None):
    for rows in torch.arange(len(given)).split(size):
        yield judge(
            distribution[rows],
            given[rows],
            0.7,
            ids=[str(row) for row in rows.tolist()],
            first=int(rows[0]),
            trusted=None if trusted is None else trusted[rows],
        )


def naive(distribution, given, trusted=None):
    """(verdict, 1 - p_wrong, row) of every row, by the words of the rule."""
    found = []
    for row, (shares, label) in enumerate(zip(distribution.tolist(), given.tolist(), strict=True)):
        best = max(shares)
        wrong = 1 - torch.tensor(shares)[label]
        verdict = KEEP if wrong <= 0.5 and shares[label] == best else REVIEW
        if shares[label] != best and best >= 0.7:
            verdict = RELABEL
        if trusted is None or not trusted[row]:
            found.append((verdict, -float(wrong), row))
    return found


@pytest.fixture
def beliefs():
    generator = torch.Generator().manual_seed(3)
    logits = 9 * torch.rand(600, 1, generator=generator) * torch.rand(600, 5, generator=generator)
    logits[50:60] = logits[0]  # ties go by number
    return logits.softmax(dim=1), torch.randint(5, (600,), generator=generator)


@pytest.mark.parametrize("size", [7, 600])
def test_review_comes_first_then_relabel_each_by_the_largest_p_wrong(beliefs, size):
    distribution, given = beliefs
    rows = rows_by_doubt(chunks(distribution, given, size), VERDICTS_OF_PART[DOUBTFUL]).tolist()
    known = naive(distribution, given)
    order = {REVIEW: 0, RELABEL: 1}
    wanted = sorted(
        (each for each in known if each[0] in order), key=lambda each: (order[each[0]], *each[1:])
    )
    assert {each[0] for each in wanted} == {REVIEW, RELABEL}
    assert rows == [row for _, _, row in wanted]


def test_rows_to_keep_come_when_asked_for_by_doubt_too(beliefs):
    distribution, given = beliefs
    rows = rows_by_doubt(chunks(distribution, given, 30), VERDICTS_OF_PART[SURE]).tolist()
    kept = sorted((key, row) for verdict, key, row in naive(distribution, given) if verdict == KEEP)
    assert len(kept) > 5
    assert rows == [row for _, row in kept]


def test_trusted_rows_are_not_asked_about(beliefs):
    distribution, given = beliefs
    trusted = torch.arange(600) % 3 == 0
    parts = VERDICTS_OF_PART.values()
    rows = [
        row
        for verdicts in parts
        for row in rows_by_doubt(chunks(distribution, given, 30, trusted), verdicts).tolist()
    ]
    assert sorted(rows) == [row for row in range(600) if row % 3]


def test_cut_rows_are_ordered_as_the_rows_they_stand_for(beliefs):
    distribution, given = beliefs
    top = cut(distribution.log(), 4).softmax()
    whole = rows_by_doubt(chunks(top.dense(), given, 64), VERDICTS_OF_PART[DOUBTFUL])
    assert rows_by_doubt(chunks(top, given, 64), VERDICTS_OF_PART[DOUBTFUL]).tolist() == whole.tolist()
