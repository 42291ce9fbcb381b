"""Sums by chunks, against loops over all rows."""

from collections import Counter

import pytest
import torch

from pencil.report.findings import BINS, LabelCounts, PairCounts, most_changed, transition
from pencil.results import DROP, VERDICTS, Decided, judge

ROWS, CLASSES = 400, 6


def judged_rows(first, given, belief, decided=None):
    ids = [str(first + row) for row in range(len(given))]
    return judge(belief, given, 0.7, ids=ids, first=first, decided=decided)


@pytest.fixture(scope="module")
def counted(random_rows):
    """Rows, their truth, and what three uneven chunks of them sum up to."""
    logits, given = random_rows(ROWS, CLASSES)
    truth = torch.randint(CLASSES, (ROWS,), generator=torch.Generator().manual_seed(9))
    belief, counts = logits.softmax(dim=1), LabelCounts(CLASSES)
    for first, stop in ((0, 1), (1, 250), (250, ROWS)):
        judged = judged_rows(first, given[first:stop], belief[first:stop])
        counts.add(judged, truth[first:stop])
    return judged_rows(0, given, belief), truth, counts


def test_classes_and_verdicts_are_counted(counted):
    judged, _, counts = counted
    given, suggested, verdict = (each.tolist() for each in (judged.given, judged.suggested, judged.verdict))
    changed = [old != new for old, new in zip(given, suggested, strict=True)]
    assert counts.rows == ROWS
    assert counts.total_changed == sum(changed)
    for name in range(CLASSES):
        mine = [row for row in range(ROWS) if given[row] == name]
        assert int(counts.given[name]) == len(mine)
        assert int(counts.suggested[name]) == suggested.count(name)
        assert int(counts.changed[name]) == sum(changed[row] for row in mine)
        assert float(counts.confidence[name]) == pytest.approx(
            sum(float(judged.confidence[row]) for row in mine)
        )
        for number in range(len(VERDICTS)):
            assert int(counts.verdicts[name, number]) == sum(verdict[row] == number for row in mine)
    assert [counts.total(number) for number in range(3)] == [verdict.count(number) for number in range(3)]
    assert counts.doubt == pytest.approx(float(judged.p_wrong.sum()), rel=1e-4)


def test_the_histogram_holds_every_row_in_its_bin(counted):
    judged, _, counts = counted
    expected = Counter(
        (verdict, min(int(confidence * BINS), BINS - 1))
        for verdict, confidence in zip(judged.verdict.tolist(), judged.confidence.tolist(), strict=True)
    )
    assert {(v, b): int(counts.histogram[v, b]) for v, b in expected} == dict(expected)
    assert int(counts.histogram.sum()) == ROWS


def test_truth_is_counted(counted):
    judged, truth, counts = counted
    rows = list(
        zip(
            judged.given.tolist(),
            judged.suggested.tolist(),
            judged.verdict.tolist(),
            truth.tolist(),
            strict=True,
        )
    )
    assert counts.truth.rows == ROWS
    assert counts.truth.given_right == sum(g == t for g, _, _, t in rows)
    assert counts.truth.suggested_right == sum(s == t for _, s, _, t in rows)
    assert counts.truth.relabelled == sum(VERDICTS[v] == "relabel" for _, _, v, _ in rows)
    assert counts.truth.relabelled_right == sum(VERDICTS[v] == "relabel" and s == t for _, s, v, t in rows)
    assert counts.truth.found == sum(g != t and g != s for g, s, _, t in rows)
    assert counts.truth.wrong == sum(g != t for g, _, _, t in rows)


def test_pairs_are_counted(counted):
    judged, _, counts = counted
    pairs = Counter(zip(judged.given.tolist(), judged.suggested.tolist(), strict=True))
    changes = {pair: number for pair, number in pairs.items() if pair[0] != pair[1]}
    assert {(old, new): number for old, new, number in counts.pairs.commonest(1000)} == changes
    found = [number for *_, number in counts.pairs.commonest(5)]
    assert found == sorted(changes.values(), reverse=True)[:5]
    for given, (_, number) in counts.pairs.commonest_of_given().items():
        assert number == max(count for (old, _), count in changes.items() if old == given)
    assert counts.pairs.is_complete


def test_too_many_pairs_cost_the_rarest_and_are_told():
    pairs = PairCounts(100, most=8)
    for other in range(1, 30):
        pairs.add(torch.tensor([0, 0, 0, 50]), torch.tensor([1, 1, 2, 50 + other]))
    assert not pairs.is_complete
    assert pairs.commonest(2) == [(0, 1, 58), (0, 2, 29)]
    assert len(pairs.commonest(100)) <= 8


def test_the_transition_matrix_is_that_of_a_loop(counted):
    judged, _, counts = counted
    matrix = transition(counts)
    assert matrix.is_whole
    for true in range(CLASSES):
        total = int((judged.suggested == true).sum())
        for given in range(CLASSES):
            both = int(((judged.suggested == true) & (judged.given == given)).sum())
            assert matrix.counts[true][given] == both
            assert matrix.shares[true][given] == pytest.approx(both / total)
        assert sum(matrix.shares[true]) == pytest.approx(1)


def test_a_cut_matrix_shows_the_classes_with_most_changes_and_keeps_their_shares(counted):
    judged, _, counts = counted
    part, whole = transition(counts, most=3), transition(counts)
    moves = Counter()
    for old, new in zip(judged.given.tolist(), judged.suggested.tolist(), strict=True):
        if old != new:
            moves.update((old, new))
    least = min(moves[index] for index in part.classes)
    assert all(moves[index] <= least for index in range(CLASSES) if index not in part.classes)
    assert not part.is_whole
    assert part.classes == sorted(part.classes) == most_changed(counts, 3).tolist()
    for row, true in enumerate(part.classes):
        assert part.shares[row] == [whole.shares[true][given] for given in part.classes]


def test_a_class_that_nothing_suggests_has_an_empty_row():
    counts = LabelCounts(3)
    belief = torch.tensor([[0.9, 0.1, 0.0], [0.8, 0.2, 0.0]])
    counts.add(judged_rows(0, torch.tensor([0, 2]), belief))
    matrix = transition(counts)
    assert matrix.shares == [[0.5, 0.0, 0.5], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]


def test_decisions_are_counted_and_drop_appears_only_if_there_is_one():
    belief, given = torch.tensor([[0.4, 0.6], [0.9, 0.1]]), torch.tensor([0, 0])
    before, after = LabelCounts(2), LabelCounts(2)
    before.add(judged_rows(0, given, belief))
    after.add(judged_rows(0, given, belief, Decided(torch.tensor([4, 0]), torch.tensor([-1, -1]))))
    assert before.totals == {"keep": 1, "relabel": 0, "review": 1}
    assert after.totals == {"keep": 1, "relabel": 0, "review": 0, "drop": 1}
    assert (before.decided, after.decided) == (0, 1)
    assert int(after.histogram[DROP].sum()) == 1
