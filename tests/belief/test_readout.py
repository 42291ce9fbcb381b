"""What features say about classes, against loops over rows."""

import math

import pytest
import torch

from pencil.belief.directions import directions
from pencil.belief.readout import RIGID, held_out, probabilities_held_out, read
from pencil.belief.rows import MANY_CLASSES, BeliefRows, grouped_rows

ROWS, WIDTH, CLASSES, COPIES = 210, 5, 3, 6


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def made_rows(number=ROWS, classes=CLASSES):
    """Rows of which the first are copies of each other, and every eighth has no label."""
    given = torch.arange(number) % 3
    x = torch.randn(3, WIDTH, generator=generator(1))[given] + torch.randn(
        number, WIDTH, generator=generator()
    )
    x[:COPIES], given[:COPIES] = x[0], 0
    given[COPIES::8] = -1
    return grouped_rows(directions(x, clipped=False), given, torch.zeros(number, dtype=torch.bool), classes)


@pytest.fixture(scope="module")
def rows():
    return made_rows()


def soft_labels(rows, seed=0):
    """Any labels (N, C), the same for copies; zeros for rows without a label."""
    labels = torch.randn(len(rows.given), rows.classes, generator=generator(seed)).softmax(1)
    labels[:COPIES] = labels[0]
    return labels * (rows.given >= 0)[:, None]


def naive_read(rows, labels, fold, row):
    """Φ (3, C) of one row; rows of its group, if they are in the prototypes at all, are left out of the sums."""
    axes, count = rows.directions.double(), len(rows.given)
    learned = [other for other in range(count) if int(rows.fold[other]) != fold]
    share = (labels * rows.weight[:, None]).double()
    total = sum(float(share[other].sum()) for other in learned)
    centre = sum(float(share[other].sum()) * axes[other] for other in learned) / total
    group = range(COPIES) if row < COPIES else [row]
    mine = axes[row] - centre
    result = []
    for each in range(rows.classes):
        prototype = torch.zeros(axes.shape[1], dtype=torch.float64)
        for other in learned:
            if other not in group:
                prototype += float(share[other, each]) * (axes[other] - centre)
        lengths = float(mine.norm() * prototype.norm())
        similar = float(mine @ prototype) / lengths if lengths > 1e-6 else 0.0
        near, weight = rows.votes[fold]
        votes = sum(
            float(power) * float(labels[other, each])
            for other, power in zip(near[row].tolist(), weight[row].tolist(), strict=True)
        )
        result.append(
            [10 * similar, 10 * similar * float(rows.lengths[row]), math.log(votes + 0.2 / rows.classes)]
        )
    return torch.tensor(result).T


@pytest.mark.parametrize("fold", [0, 3])
@pytest.mark.parametrize("seed", [0, None])
def test_a_row_is_read_as_by_a_loop(rows, fold, seed):
    labels = rows.one_hot() if seed is None else soft_labels(rows, seed)
    phi = read(rows, labels, fold)
    assert phi.shape == (3, ROWS, CLASSES)
    places = range(0, ROWS, 4)
    assert {bool(rows.fold[place] == fold) for place in places} == {True, False}
    for row in places:
        expected = naive_read(rows, labels, fold, row)
        torch.testing.assert_close(phi[:, row], expected, rtol=1e-3, atol=2e-3)


def test_some_rows_and_the_rigid_read_out_are_parts_of_all(rows):
    labels, asked = soft_labels(rows), torch.tensor([3, 100, 17])
    phi = read(rows, labels, 1)
    torch.testing.assert_close(read(rows, labels, 1, asked), phi[:, asked], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(read(rows, labels, 1, asked, RIGID), phi[:1, asked], rtol=1e-4, atol=1e-4)


def test_the_label_of_a_row_does_not_change_what_is_read_of_it(rows):
    fold, labels = 2, soft_labels(rows)
    for row in (20, 40, 41, 60, 80):
        assert int(rows.given[row]) >= 0
        changed = labels.clone()
        changed[row] = labels[row].roll(1)
        if int(rows.fold[row]) == fold:
            assert torch.equal(read(rows, changed, fold)[:, row], read(rows, labels, fold)[:, row])
        else:  # only the mean of all rows moves a little
            torch.testing.assert_close(
                read(rows, changed, fold)[:, row], read(rows, labels, fold)[:, row], rtol=0, atol=0.1
            )


def test_with_few_rows_there_are_no_votes():
    few = made_rows(100)
    assert read(few, few.one_hot(), 0).shape == (2, 100, CLASSES)


def test_with_many_classes_each_row_is_left_out_of_its_own_prototype():
    many = made_rows(120, MANY_CLASSES + 1)
    held = held_out(many, [many.one_hot()], whole=False)
    assert held.phi.shape == (2, 120, MANY_CLASSES + 1)
    axes, labels = many.directions.double(), (many.one_hot() * many.weight[:, None]).double()
    centre = (labels.sum(1, keepdim=True) * axes).sum(0) / labels.sum()
    for row in range(COPIES, 120, 7):
        for each in range(3):
            others = [other for other in range(120) if other != row and int(many.given[other]) == each]
            prototype = sum(float(labels[other, each]) * (axes[other] - centre) for other in others)
            mine = axes[row] - centre
            expected = 10 * float(mine @ prototype / (mine.norm() * prototype.norm()))
            assert float(held.phi[0, row, each]) == pytest.approx(expected, abs=2e-3)


def test_each_row_comes_from_the_read_out_of_its_fold(rows):
    labels = [soft_labels(rows, fold) for fold in range(rows.folds)]
    held = held_out(rows, labels, whole=True)
    assert len(held.parts) == rows.folds
    for fold in range(rows.folds):
        part = read(rows, labels[fold], fold)
        assert torch.equal(held.parts[fold], part)
        for row in rows.held(fold).tolist():
            assert torch.equal(held.phi[:, row], part[:, row])


def test_without_the_learned_rows_the_same_is_read(rows):
    labels = [soft_labels(rows, fold) for fold in range(rows.folds)]
    all_rows, held = held_out(rows, labels, whole=True), held_out(rows, labels, whole=False)
    assert held.parts == ()
    torch.testing.assert_close(held.phi, all_rows.phi, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(held.strange, all_rows.strange, rtol=1e-3, atol=1e-3)
    assert held_out(rows, labels, RIGID, whole=False).phi.shape == (1, ROWS, CLASSES)


def test_strangeness_and_heavy_tails_equal_a_loop(rows):
    held = held_out(rows, [rows.one_hot()] * rows.folds, whole=False)
    far = [-max(values) for values in held.phi[0].tolist()]
    middle = sorted(far)[(ROWS - 1) // 2]
    typical = sorted(abs(each - middle) for each in far)[(ROWS - 1) // 2]
    for row in range(ROWS):
        assert float(held.strange[row]) == pytest.approx((far[row] - middle) / typical / 1.5, abs=1e-4)
        for each in range(CLASSES):
            similar = float(held.phi[0, row, each]) / 10
            assert float(held.heavy[row, each]) == pytest.approx(math.log(max(similar, 0) + 0.05), abs=1e-4)


def test_probabilities_are_read_as_their_logarithm():
    chances = torch.rand(50, 4, generator=generator()).softmax(1)
    chances[0] = torch.tensor([1.0, 0, 0, 0])
    held = probabilities_held_out(chances.double())
    assert held.phi.shape == (1, 50, 4)
    assert held.parts == ()
    assert bool(held.phi.isfinite().all())
    torch.testing.assert_close(held.phi[0, 1:].exp(), chances[1:])
    torch.testing.assert_close(held.heavy, (chances.clamp_min(1e-6) + 0.05).log())
    assert int(held.strange.argmin()) == 0
    assert int(held.strange.argmax()) == int(chances.amax(1).argmin())


def test_rows_can_be_made_by_hand():
    axes = torch.tensor([[1.0, 0], [1, 0], [0, 1], [0, 1]])
    rows = BeliefRows(
        axes,
        torch.ones(4, 1),
        torch.tensor([0, 0, 1, 1]),
        torch.zeros(4, dtype=torch.bool),
        2,
        torch.ones(4),
        torch.tensor([0, 1, 0, 1]),
        torch.tensor([0, 0, 1, 1]),
        (),
    )
    expected = torch.tensor([[10.0, -10], [10, -10], [-10, 10], [-10, 10]])[None]
    found = read(rows, rows.one_hot(), 0, features=RIGID)
    torch.testing.assert_close(found[:, [0, 2]], expected[:, [0, 2]])
    assert float(found[0, 1, 0]) == 0  # the only row of its class that was learned from
