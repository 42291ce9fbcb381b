"""The noise that a belief states, against loops over rows."""

import pytest
import torch

from pencil.belief import Checks, noise_of

ROWS, CLASSES = 300, 3
PASSED, FAILED, BLIND = Checks(True, True, True), Checks(True, False, True), Checks(False, False, True)


@pytest.fixture(scope="module")
def rows():
    """A posterior, and given classes that it mostly agrees with."""
    random = torch.Generator().manual_seed(0)
    given = torch.randint(CLASSES, (ROWS,), generator=random)
    posterior = 0.02 * torch.rand(ROWS, CLASSES + 1, generator=random) + 1e-3
    likely = torch.where(torch.rand(ROWS, generator=random) < 0.3, (given + 1) % CLASSES, given)
    posterior[torch.arange(ROWS), likely] += 1
    return posterior / posterior.sum(1, keepdim=True), given


def test_shares_are_means_over_rows(rows):
    posterior, given = rows
    found = noise_of(posterior, given, PASSED)
    wrong = [1 - float(posterior[row, given[row]]) for row in range(ROWS)]
    assert found.rate.value == pytest.approx(sum(wrong) / ROWS, rel=1e-5)
    for name in range(CLASSES):
        mine = [wrong[row] for row in range(ROWS) if given[row] == name]
        assert float(found.per_class[name, 0]) == pytest.approx(sum(mine) / len(mine), rel=1e-5)
    errors = [1 - max(posterior[row, :-1].tolist()) for row in range(ROWS)]
    assert found.suggested_error.value == pytest.approx(sum(errors) / ROWS, rel=1e-5)


def test_the_matrix_counts_believed_classes_by_given_ones(rows):
    posterior, given = rows
    counts = [[0.0] * CLASSES for _ in range(CLASSES)]
    for row in range(ROWS):
        for true in range(CLASSES):
            counts[true][given[row]] += float(posterior[row, true])
    found = noise_of(posterior, given, PASSED).matrix
    for true in range(CLASSES):
        total = sum(counts[true])
        assert found[true].tolist() == pytest.approx([each / total for each in counts[true]], rel=1e-4)


def test_there_is_a_lower_end_and_no_upper_one(rows):
    found = noise_of(*rows, PASSED)
    assert 0 < found.rate.low < found.rate.value < found.rate.high == 1
    assert bool((found.per_class[:, 1] <= found.per_class[:, 0]).all())
    assert bool((found.per_class[:, 2] == 1).all())
    assert found.surest == 1
    assert found.alarms == ()


def test_a_test_that_failed_is_an_alarm_and_nothing_counts_as_sure(rows):
    found = noise_of(*rows, FAILED)
    assert found.rate.low == found.surest == 0
    assert [alarm.words for alarm in found.alarms] == [FAILED.reason]


def test_clean_labels_are_no_reason_for_an_alarm(rows):
    posterior, _ = rows
    clean = posterior[:, :-1].argmax(1)
    assert noise_of(posterior, clean, FAILED).alarms == ()
    assert [alarm.words for alarm in noise_of(posterior, clean, BLIND).alarms] == [BLIND.reason]


def test_a_class_without_rows_keeps_its_label():
    posterior = torch.tensor([[0.9, 0.1, 0.0, 0.0], [0.2, 0.8, 0.0, 0.0]])
    found = noise_of(posterior, torch.tensor([0, 1]), PASSED)
    assert found.matrix[2].tolist() == [0, 0, 1]
    assert float(found.per_class[2, 0]) == 0
