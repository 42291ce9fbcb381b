"""Groups of copies, folds and the neighbours that vote, against loops."""

import math

import pytest
import torch

from pencil.belief.directions import directions
from pencil.belief.rows import (
    FEWEST,
    FOLDS,
    MANY_CLASSES,
    NEAR,
    SEARCHED,
    _agreement,
    alone_rows,
    copied_groups,
    grouped_rows,
)
from pencil.estimates.neighbours import nearest

ROWS, CLASSES = 240, 4
COPIES, PAIRS = 50, 10
"""The first rows are copies of row 0, and the ten rows after them are copies of those before the last ten."""


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(rows, width, seed=0):
    return torch.randn(rows, width, generator=generator(seed))


def with_copies():
    x = normal(ROWS, 6)
    x[:COPIES] = x[0]
    x[COPIES : COPIES + PAIRS] = x[-PAIRS:]
    label = torch.randint(CLASSES, (ROWS,), generator=generator(1))
    label[:COPIES] = label[0]
    label[COPIES : COPIES + PAIRS] = label[-PAIRS:]
    return x, label


def naive_groups():
    return [
        0 if row < COPIES else row - COPIES + ROWS - PAIRS if row < COPIES + PAIRS else row
        for row in range(ROWS)
    ]


def same(groups):
    groups = torch.as_tensor(groups)
    return groups[:, None] == groups[None, :]


@pytest.fixture(scope="module")
def copied():
    """Rows with copies whose labels are the same; every ninth row has no label."""
    x, label = with_copies()
    without = torch.arange(ROWS) % 9 == 8
    without[:COPIES] = without[COPIES : COPIES + PAIRS] = without[-PAIRS:] = False
    given = torch.where(without, -1, label)
    return grouped_rows(directions(x, clipped=False), given, torch.zeros(ROWS, dtype=torch.bool), CLASSES)


def test_copies_with_the_same_label_are_one_group():
    x, label = with_copies()
    found = nearest(directions(x, clipped=False)[0], SEARCHED)
    assert torch.equal(same(copied_groups(found, label)), same(naive_groups()))


def test_copies_with_other_labels_are_in_no_group():
    x, label = with_copies()
    label[:COPIES] = torch.arange(COPIES) % CLASSES
    found = nearest(directions(x, clipped=False)[0], SEARCHED)
    assert len(copied_groups(found, label).unique()) == ROWS


def test_rows_without_copies_are_in_no_group():
    found = nearest(directions(normal(ROWS, 6), clipped=False)[0], SEARCHED)
    assert len(copied_groups(found, torch.zeros(ROWS, dtype=torch.long)).unique()) == ROWS


def test_agreement_is_the_share_of_pairs_with_the_same_label():
    group = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2])
    given = torch.tensor([4, 4, 1, 2, 2, 0, 1, 3])
    pairs = [(i, j) for i in range(8) for j in range(i) if group[i] == group[j]]
    share = sum(int(given[i] == given[j]) for i, j in pairs) / len(pairs)
    assert _agreement(group, given) == pytest.approx(share)


def test_a_row_weighs_one_over_the_size_of_its_group_and_nothing_without_a_label(copied):
    groups = naive_groups()
    expected = [0.0 if int(copied.given[row]) < 0 else 1 / groups.count(groups[row]) for row in range(ROWS)]
    assert 0.0 in expected
    torch.testing.assert_close(copied.weight, torch.tensor(expected))


def test_whole_groups_are_in_one_fold_and_one_half(copied):
    groups = torch.tensor(naive_groups())
    for group in groups.unique():
        assert len(copied.fold[groups == group].unique()) == 1
        assert len(copied.half[groups == group].unique()) == 1
    assert copied.fold.unique().tolist() == list(range(copied.folds))
    assert copied.half.unique().tolist() == [0, 1]


@pytest.mark.parametrize(("classes", "folds"), [(2, 5), (4, 10), (24, 20)])
def test_classes_with_few_rows_have_more_folds(classes, folds):
    given = torch.arange(ROWS) % classes
    unverified = torch.zeros(ROWS, dtype=torch.bool)
    rows = grouped_rows(directions(normal(ROWS, 6), clipped=False), given, unverified, classes)
    assert rows.folds == folds == len(rows.fold.unique())


def test_folds_are_of_about_equal_size():
    rows = grouped_rows(
        directions(normal(ROWS, 6), clipped=False),
        torch.arange(ROWS) % CLASSES,
        torch.zeros(ROWS, dtype=torch.bool),
        CLASSES,
    )
    assert torch.bincount(rows.fold).tolist() == [ROWS // rows.folds] * rows.folds
    assert torch.cat([rows.held(fold) for fold in range(rows.folds)]).sort().values.tolist() == list(
        range(ROWS)
    )
    for fold in range(rows.folds):
        assert rows.held(fold).tolist() == [row for row in range(ROWS) if int(rows.fold[row]) == fold]


def test_one_hot_has_no_label_where_none_was_given(copied):
    for row, label in enumerate(copied.given.tolist()):
        assert copied.one_hot()[row].tolist() == [float(each == label) for each in range(CLASSES)]


def naive_votes(rows, groups, fold, row):
    """How much each group votes, and how many of its rows; of equal rows any may do so."""
    cosine = (rows.directions.double() @ rows.directions[row].double()).tolist()
    others = [other for other in range(ROWS) if other != row]
    order = sorted(others, key=lambda other: -round(cosine[other], 5))[:SEARCHED]
    near = [other for other in order if groups[other] != groups[row] and int(rows.fold[other]) != fold][:NEAR]
    total = sum(math.exp(10 * cosine[other]) for other in near)
    return by_group([(groups[other], math.exp(10 * cosine[other]) / total) for other in near])


def by_group(votes):
    found = {}
    for group, weight in votes:
        count, total = found.get(group, (0, 0.0))
        found[group] = (count + 1, total + weight)
    return {group: pytest.approx(each, rel=1e-2, abs=1e-5) for group, each in found.items()}, found


def test_the_nearest_rows_outside_the_fold_and_the_group_vote(copied):
    groups, numbers = naive_groups(), set()
    for fold in range(copied.folds):
        near, weight = copied.votes[fold]
        for row in range(0, ROWS, 3):
            pairs = zip(near[row].tolist(), weight[row].tolist(), strict=True)
            found = by_group([(groups[other], each) for other, each in pairs if each > 0])[1]
            expected, counts = naive_votes(copied, groups, fold, row)
            assert found == expected
            numbers.add(sum(count for count, _ in counts.values()))
    assert NEAR in numbers
    assert min(numbers) < NEAR  # copies have fewer rows outside of their group among those searched


def test_no_row_of_the_fold_or_the_group_votes(copied):
    groups = torch.tensor(naive_groups())
    for fold, (near, weight) in enumerate(copied.votes):
        votes = weight > 0
        assert not bool((votes & (copied.fold[near] == fold)).any())
        assert not bool((votes & (groups[near] == groups[:, None])).any())
        torch.testing.assert_close(weight.sum(1), torch.ones(ROWS))


def test_with_few_rows_or_many_classes_nobody_votes():
    def rows(number, classes):
        given = torch.arange(number) % 3
        unverified = torch.zeros(number, dtype=torch.bool)
        return grouped_rows(directions(normal(number, 6), clipped=False), given, unverified, classes)

    assert rows(FEWEST, CLASSES).votes == ()
    some = rows(FEWEST + 1, CLASSES)
    assert len(some.votes) == some.folds
    many = rows(FEWEST + 1, MANY_CLASSES + 1)
    assert many.votes == ()
    assert many.folds == 1
    assert many.held(0).tolist() == list(range(FEWEST + 1))


def test_rows_that_are_alone_have_folds_and_no_votes():
    nothing = torch.zeros(100, 1)
    given = torch.arange(100) % 3 - 1
    rows = alone_rows((nothing, nothing), given, torch.zeros(100, dtype=torch.bool), 2)
    assert rows.votes == ()
    assert torch.bincount(rows.fold).tolist() == [20] * FOLDS
    assert torch.bincount(rows.half).tolist() == [50, 50]
    assert torch.equal(rows.weight, (given >= 0).float())
