"""Sums by chunks, against loops over all rows."""

from collections import Counter
from dataclasses import replace

import pytest
import torch

from pencil.report.findings import BINS, Expected, LabelCounts, PairCounts, most_changed
from pencil.report.matrix import transition, true_shares
from pencil.results import DROP, KEEP, RELABEL, VERDICTS, Decided, judge
from support.runs import estimates_of

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
        for number in range(len(VERDICTS)):
            assert int(counts.verdicts[name, number]) == sum(verdict[row] == number for row in mine)
    assert [counts.total(number) for number in range(3)] == [verdict.count(number) for number in range(3)]


def test_expected_errors_are_sums_of_probabilities(counted):
    judged, _, counts = counted
    relabels = [1 - float(judged.confidence[row]) for row in range(ROWS) if judged.verdict[row] == RELABEL]
    keeps = [float(judged.p_wrong[row]) for row in range(ROWS) if judged.verdict[row] == KEEP]
    for expected, values in ((counts.false_relabels, relabels), (counts.false_keeps, keeps)):
        assert expected.rows == len(values)
        assert expected.share.value == pytest.approx(sum(values) / len(values), rel=1e-4)


def test_the_interval_of_an_expected_number_holds_it_as_often_as_it_says():
    generator = torch.Generator().manual_seed(0)
    p = torch.rand(300, generator=generator)
    expected = Expected()
    for part in p.split(70):
        expected.add(part)
    drawn = (torch.rand(4000, 300, generator=generator) < p).double().mean(dim=1)
    inside = (drawn >= expected.share.low) & (drawn <= expected.share.high)
    assert 0.93 < float(inside.double().mean()) < 0.97
    none = Expected().share
    assert (none.value, none.low, none.high) == (0, 0, 0)


def test_the_histogram_holds_every_row_in_its_bin(counted):
    judged, _, counts = counted
    expected = Counter(
        (verdict, min(int(p_wrong * BINS), BINS - 1))
        for verdict, p_wrong in zip(judged.verdict.tolist(), judged.p_wrong.tolist(), strict=True)
    )
    assert {(v, b): int(counts.histogram[v, b]) for v, b in expected} == dict(expected)
    assert int(counts.histogram.sum()) == ROWS
    assert float(counts.bin_sums.sum()) == pytest.approx(float(judged.p_wrong.double().sum()))


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
    assert counts.truth.suggested_wrong == sum(s != t for _, s, _, t in rows)
    assert counts.truth.false_relabels == sum(VERDICTS[v] == "relabel" and s != t for _, s, v, t in rows)
    assert counts.truth.total_wrong == sum(g != t for g, _, _, t in rows) == int(counts.truth.bins.sum())
    for given in range(CLASSES):
        for verdict in range(len(VERDICTS)):
            wrong = sum((g, v) == (given, verdict) and g != t for g, _, v, t in rows)
            assert int(counts.truth.wrong[given, verdict]) == wrong
    for true, line in enumerate(true_shares(counts.truth, range(CLASSES))):
        number = sum(t == true for *_, t in rows)
        assert line == [
            pytest.approx(sum((g, t) == (given, true) for g, _, _, t in rows) / number)
            for given in range(CLASSES)
        ]


def test_pairs_are_counted(counted):
    judged, _, counts = counted
    pairs = Counter(zip(judged.given.tolist(), judged.suggested.tolist(), strict=True))
    changes = {pair: number for pair, number in pairs.items() if pair[0] != pair[1]}
    matrix = counts.pairs.among(torch.arange(CLASSES))
    assert {(old, new): int(matrix[old, new]) for old, new in matrix.nonzero().tolist()} == changes
    for given, (_, number) in counts.pairs.commonest().items():
        assert number == max(count for (old, _), count in changes.items() if old == given)


def test_too_many_pairs_cost_the_rarest():
    pairs = PairCounts(100, most=8)
    for other in range(1, 30):
        pairs.add(torch.tensor([0, 0, 0, 50]), torch.tensor([1, 1, 2, 50 + other]))
    assert pairs.commonest()[0] == (1, 58)
    assert int((pairs.among(torch.arange(100)) > 0).sum()) <= 8


def test_the_transition_matrix_is_that_of_the_estimates(counted):
    judged, _, counts = counted
    estimates = estimates_of(judged.distribution, judged.given)
    matrix = transition(estimates, counts)
    assert matrix.is_whole
    known = {(true, given): value for true, given, value, *_ in estimates.pairs}
    for true in range(CLASSES):
        own = estimates.kept[true][0]
        assert matrix.shares[true] == [known.get((true, given), own) for given in range(CLASSES)]
    assert matrix.truth == true_shares(counts.truth, range(CLASSES))
    for row in matrix.cells:
        assert all(cell.low <= cell.value <= cell.high for cell in row)
        assert sum(cell.value for cell in row) == pytest.approx(1, abs=1e-4)


def test_a_cut_matrix_shows_the_classes_with_most_changes_and_keeps_their_shares(counted):
    judged, _, counts = counted
    estimates = estimates_of(judged.distribution, judged.given)
    part, whole = transition(estimates, counts, most=3), transition(estimates, counts)
    moves = Counter()
    for old, new in zip(judged.given.tolist(), judged.suggested.tolist(), strict=True):
        if old != new:
            moves.update((old, new))
    least = min(moves[index] for index in part.classes)
    assert all(moves[index] <= least for index in range(CLASSES) if index not in part.classes)
    assert not part.is_whole
    assert part.classes == sorted(part.classes) == most_changed(counts, 3).tolist()
    for row, true in enumerate(part.classes):
        assert part.cells[row] == [whole.cells[true][given] for given in part.classes]


def test_entries_that_the_estimates_do_not_keep_are_told_from_zero(counted):
    judged, _, counts = counted
    estimates = estimates_of(judged.distribution, judged.given)
    matrix = transition(replace(estimates, pairs=estimates.pairs[:4]), counts)
    assert sum(cell is None for row in matrix.cells for cell in row) == CLASSES * (CLASSES - 1) - 4


def test_decisions_are_counted_and_drop_appears_only_if_there_is_one():
    belief, given = torch.tensor([[0.4, 0.6], [0.9, 0.1]]), torch.tensor([0, 0])
    before, after = LabelCounts(2), LabelCounts(2)
    before.add(judged_rows(0, given, belief))
    after.add(judged_rows(0, given, belief, Decided(torch.tensor([4, 0]), torch.tensor([-1, -1]))))
    assert before.totals == {"keep": 1, "relabel": 0, "review": 1}
    assert after.totals == {"keep": 1, "relabel": 0, "review": 0, "drop": 1}
    assert (before.decided, after.decided) == (0, 1)
    assert int(after.histogram[DROP].sum()) == 1
