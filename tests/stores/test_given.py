"""Given labels: hard, soft, votes, trusted; mistakes named."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from pencil.errors import DataError
from pencil.stores import GivenLabels


def test_hard_labels_are_int64_and_count_their_classes():
    labels = GivenLabels.of(torch.tensor([2, 0, 1], dtype=torch.int32))
    assert labels.values.dtype == torch.int64
    assert labels.num_classes == 3
    assert len(labels) == 3
    assert torch.equal(labels.hard, torch.tensor([2, 0, 1]))
    assert labels.trusted is None


def test_lists_and_whole_floats_are_labels_too():
    assert torch.equal(GivenLabels.of([1, 0]).values, torch.tensor([1, 0]))
    assert torch.equal(GivenLabels.of(torch.tensor([1.0, 0.0])).values, torch.tensor([1, 0]))


def test_num_classes_may_exceed_the_classes_seen():
    assert GivenLabels.of([0, 1], 10).num_classes == 10


@settings(max_examples=30, deadline=None)
@given(
    rows=st.lists(st.lists(st.integers(0, 50), min_size=4, max_size=4).filter(any), min_size=1, max_size=6)
)
def test_votes_become_shares(rows):
    votes = torch.tensor(rows)
    labels = GivenLabels.of(votes)
    assert labels.values.dtype == torch.float32
    assert labels.num_classes == 4
    assert_close(labels.values.sum(1), torch.ones(len(rows)))
    assert_close(labels.values, votes / votes.sum(1, keepdim=True))
    assert torch.equal(labels.hard, labels.values.argmax(1))


def test_distributions_stay_as_they_are():
    soft = torch.tensor([[0.25, 0.75], [0.5, 0.5]])
    assert torch.equal(GivenLabels.of(soft).values, soft)


def test_soft_labels_are_scaled_not_softmaxed():
    assert torch.equal(GivenLabels.of(torch.tensor([[1.0, 3.0]])).values, torch.tensor([[0.25, 0.75]]))


def test_subset_keeps_the_order_asked_for_and_the_class_count():
    labels = GivenLabels.of([0, 1, 2, 1], 5, trusted=[True, False, False, True])
    part = labels.subset(torch.tensor([3, 0, 1]))
    assert torch.equal(part.values, torch.tensor([1, 0, 1]))
    assert torch.equal(part.trusted, torch.tensor([True, True, False]))
    assert part.num_classes == 5
    assert GivenLabels.of([0, 1]).subset(torch.tensor([1])).trusted is None


def test_subset_of_soft_labels():
    labels = GivenLabels.of(torch.tensor([[1, 3], [1, 0]]))
    assert torch.equal(labels.subset(torch.tensor([1])).values, torch.tensor([[1.0, 0.0]]))


def test_no_labels_with_a_class_count_is_an_empty_set():
    assert len(GivenLabels.of(torch.tensor([], dtype=torch.long), 3)) == 0


@pytest.mark.parametrize(
    ("labels", "classes", "message"),
    [
        ([0, -1], None, "from 0; found -1"),
        ([0, 3], 3, "label 3 is out of range for 3 classes"),
        ([0.5, 1.0], None, "whole class indices"),
        ([float("nan"), 1.0], None, "whole class indices"),
        ([1.0, float("inf")], None, "found inf in row 1"),
        ([0, 5_000_000, 1], None, "row 1: class number 5,000,000 is far beyond the 3 rows"),
        ([[1.0, 0.0], [0.5, -1.0]], None, "fix row 1"),
        ([[0.5, 0.5]], 3, "2 columns but num_classes is 3"),
        ([[0.5, -0.5]], None, "not negative"),
        ([[0.0, 0.0]], None, "positive sum"),
        ([[float("nan"), 1.0]], None, "finite"),
        ([[float("inf"), 1.0]], None, "finite"),
    ],
)
def test_mistakes_are_data_errors_that_name_the_fault(labels, classes, message):
    with pytest.raises(DataError, match=message):
        GivenLabels.of(torch.tensor(labels), classes)


def test_trusted_needs_one_entry_per_label():
    with pytest.raises(DataError, match=r"one entry per label: 3, got \(2,\)"):
        GivenLabels.of([0, 1, 2], trusted=[True, False])


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (torch.tensor([], dtype=torch.long), "labels are empty; give num_classes"),
        (torch.tensor(3), r"classes \(N,\) or a matrix \(N, C\), not of shape \(\)"),
        (torch.ones(2, 3, 4), r"not of shape \(2, 3, 4\)"),
    ],
    ids=["none", "scalar", "cube"],
)
def test_labels_of_no_meaning_are_data_errors(labels, message):
    with pytest.raises(DataError, match=message):
        GivenLabels.of(labels)


@pytest.mark.parametrize("labels", [torch.tensor([0, 1]), torch.tensor([[0.0, 1.0], [1.0, 0.0]])])
def test_given_labels_do_not_follow_the_callers_tensor(labels):
    given, before = GivenLabels.of(labels), labels.clone()
    labels[0] = labels[1]
    assert torch.equal(given.values, before)


@pytest.mark.parametrize("labels", [["cat", "dog"], [None, 1], [1j, 0j], [[0], [1, 2]], [2**70, 1]])
def test_what_are_no_numbers_are_data_errors(labels):
    with pytest.raises(DataError, match="labels must be class numbers from 0"):
        GivenLabels.of(labels)


def test_a_column_is_a_list():
    assert GivenLabels.of([[0], [2], [1]]).values.tolist() == [0, 2, 1]
