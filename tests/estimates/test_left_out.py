"""The noise of every pair of classes: used where left-out labels confirm it, alike over ranks."""

import pytest
import torch

from pencil.estimates.left_out import PARTS, confirmed_matrix, part_of
from pencil.estimates.likelihood import Evidence, fit_map
from support.estimating import on_ranks, symmetric

CLASSES, ROWS, START = 5, 1500, (3.0, 0.0, -1.0)


def alone(values):
    return values


def similarities(rows, seed):
    """Similarities, and true classes drawn with a sharpness of 3."""
    random = torch.Generator().manual_seed(seed)
    similar = torch.randn(rows, CLASSES, generator=random)
    return similar, (3 * similar).softmax(1).multinomial(1, generator=random)[:, 0]


def evidence(similar, given):
    return Evidence(similar, given, torch.zeros(CLASSES))


def pairs(rows, seed=0):
    """40 % of the labels of classes 0 and 1 are exchanged."""
    similar, true = similarities(rows, seed)
    wrong = (true < 2) & (torch.rand(rows, generator=torch.Generator().manual_seed(seed)) < 0.4)
    return similar, torch.where(wrong, 1 - true, true)


def confirmed(similar, given, total=alone):
    rows = evidence(similar, given)
    return confirmed_matrix(rows, fit_map(rows, total, start=START), total, errors=1.0)


def test_errors_between_two_classes_are_confirmed():
    found = confirmed(*pairs(ROWS))
    wanted = torch.eye(CLASSES)
    wanted[:2, :2] = torch.tensor([[0.6, 0.4], [0.4, 0.6]])
    torch.testing.assert_close(found.matrix.matrix, wanted, atol=0.08, rtol=0)


@pytest.fixture(scope="module")
def twelve():
    """Confirmed matrices of twelve samples, with given and true classes."""
    samples = [(*pairs(ROWS, seed), similarities(ROWS, seed)[1]) for seed in range(12)]
    return [(confirmed(similar, given), given, true) for similar, given, true in samples]


def test_the_noise_rate_has_its_standard_error(twelve):
    missed = [found.rate - float((given != true).double().mean()) for found, given, true in twelve]
    errors = torch.tensor([found.error for found, _, _ in twelve])
    assert 0.5 < float(errors.mean() / torch.tensor(missed).square().mean().sqrt()) < 1.7
    assert int((torch.tensor(missed).abs() > 3 * errors).sum()) == 0
    exchanged, others = (
        torch.stack([found.class_error[some] for found, _, _ in twelve]) for some in ([0, 1], [2, 3, 4])
    )
    assert float(exchanged.mean()) > 1.5 * float(others.mean())


def test_the_noise_of_a_pair_is_within_its_bounds(twelve):
    wanted = torch.zeros(CLASSES, CLASSES)
    wanted[0, 1] = wanted[1, 0] = 0.4
    low, high = (torch.stack([getattr(found, end) for found, _, _ in twelve]) for end in ("low", "high"))
    inside, pair = (low <= wanted) & (wanted <= high), ~torch.eye(CLASSES, dtype=torch.bool)
    assert float(inside[:, pair].float().mean()) >= 0.95
    assert float(inside[:, wanted > 0].float().mean()) >= 0.9
    assert float((high - low)[:, wanted > 0].max()) < 0.25
    assert float(high[:, pair & (wanted == 0)].mean()) < 0.05


@pytest.mark.parametrize("rate", [0.2, 0.5])
@pytest.mark.parametrize("seed", range(4))
def test_errors_that_fall_on_all_classes_alike_are_not(rate, seed):
    similar, true = similarities(ROWS, seed)
    assert confirmed(similar, symmetric(true, CLASSES, rate, seed=seed)) is None


@pytest.mark.parametrize("seed", range(4))
def test_right_labels_are_not_taken_for_errors(seed):
    found = confirmed(*similarities(ROWS, seed))
    assert found is None or float(found.matrix.matrix.diagonal().min()) > 0.98


def test_a_few_rows_confirm_nothing():
    assert confirmed(*pairs(90)) is None


def test_a_row_keeps_its_part():
    similar, _ = pairs(ROWS)
    parts = part_of(similar)
    assert torch.equal(torch.cat([part_of(some) for some in similar.split(7)]), parts)
    assert float((part_of(similar * (1 + 1e-7)) == parts).float().mean()) > 0.99
    assert (parts.bincount(minlength=PARTS) > ROWS / PARTS / 2).all()


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_confirm_what_one_process_does(ranks):
    similar, given = pairs(ROWS)
    parts = list(zip(similar.chunk(ranks), given.chunk(ranks), strict=True))
    whole = confirmed(similar, given)
    several = on_ranks(parts, CLASSES, lambda passes, own, _, total: confirmed(rows_of(passes), own, total))
    for found in several:
        torch.testing.assert_close(found.matrix.matrix, whole.matrix.matrix, atol=1e-4, rtol=0)
        assert found.matrix.sharpness == pytest.approx(whole.matrix.sharpness, rel=1e-3)
        assert (found.rate, found.error) == pytest.approx((whole.rate, whole.error), abs=1e-4)
        torch.testing.assert_close(found.class_error, whole.class_error, atol=1e-4, rtol=0)
        torch.testing.assert_close((found.low, found.high), (whole.low, whole.high), atol=1e-3, rtol=0)


def rows_of(passes):
    return torch.cat([some for _, some in passes()])
