"""Examples: rows that keep their names, labels that leave a reference behind, lengths that must agree."""

import pytest
import torch
from torch.utils.data import Dataset, TensorDataset

from pencil.data.examples import Examples, RowNumbers, Splits, SubsetNames
from pencil.data.inputs import DatasetInputs, SubsetInputs, TensorInputs
from pencil.errors import DataError
from pencil.stores import GivenLabels

VALUES = torch.arange(12.0).view(6, 2)


class Items(Dataset):
    def __init__(self, *items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, row):
        return self.items[row]


def examples(inputs=None, **changes):
    fields = {
        "inputs": inputs or TensorInputs(VALUES),
        "labels": GivenLabels.of([0, 1, 2, 0, 1, 2], trusted=[True] + 5 * [False]),
        "class_names": ("cat", "dog", "eel"),
        "ids": ["a", "b", "c", "d", "e", "f"],
        "reference": torch.tensor([0, 1, 2, 0, 1, 1]),
    }
    return Examples(**{**fields, **changes})


def test_a_class_name_that_is_not_utf8_is_refused_before_training():
    labels = GivenLabels.of(torch.tensor([0, 1]), 2)
    with pytest.raises(DataError, match=r"the class name 'b\\udcffd' is not UTF-8; rename its folder"):
        Examples(TensorInputs(torch.zeros(2, 3)), labels, ("cat", "b\udcffd"), RowNumbers(2))


def test_examples_know_their_size_and_classes():
    assert len(examples()) == 6
    assert examples().num_classes == 3


@pytest.mark.parametrize("inputs", [TensorInputs(VALUES), DatasetInputs(TensorDataset(VALUES))])
def test_a_subset_takes_everything_of_its_rows_along_in_the_order_asked_for(inputs):
    part = examples(inputs).subset(torch.tensor([5, 0, 2]))
    assert len(part) == 3
    assert torch.equal(part.inputs.fetch(torch.tensor([0, 1, 2])), VALUES[[5, 0, 2]])
    assert torch.equal(part.labels.values, torch.tensor([2, 0, 2]))
    assert torch.equal(part.labels.trusted, torch.tensor([False, True, False]))
    assert list(part.ids) == ["f", "a", "c"]
    assert torch.equal(part.reference, torch.tensor([1, 0, 2]))
    assert part.class_names == ("cat", "dog", "eel")


@pytest.mark.parametrize("inputs", [TensorInputs(VALUES), DatasetInputs(TensorDataset(VALUES))])
def test_a_subset_of_a_subset_still_knows_its_names(inputs):
    part = examples(inputs).subset(torch.tensor([5, 0, 2])).subset(torch.tensor([2, 0]))
    assert torch.equal(part.inputs.fetch(torch.arange(2)), VALUES[[2, 5]])
    assert list(part.ids) == ["c", "f"]


def test_a_subset_keeps_classes_it_does_not_see_and_may_be_empty():
    assert examples().subset(torch.tensor([0])).num_classes == 3
    assert len(examples().subset(torch.tensor([], dtype=torch.long))) == 0


def test_a_subset_of_examples_without_reference_has_none():
    assert examples(reference=None).subset(torch.tensor([1])).reference is None


def test_new_labels_keep_the_reference():
    noisy = GivenLabels.of([2, 2, 2, 2, 2, 2])
    changed = examples().with_labels(noisy)
    assert changed.labels is noisy
    assert torch.equal(changed.reference, examples().reference)


def test_where_no_reference_is_known_the_old_labels_become_it():
    changed = examples(reference=None).with_labels(GivenLabels.of([2, 2, 2, 2, 2, 2]))
    assert torch.equal(changed.reference, torch.tensor([0, 1, 2, 0, 1, 2]))


def test_of_old_soft_labels_the_likeliest_become_the_reference():
    votes = GivenLabels.of(torch.tensor([[1, 5, 0]] * 6))
    changed = examples(labels=votes, reference=None).with_labels(GivenLabels.of([2] * 6))
    assert changed.reference.tolist() == [1] * 6


def test_new_labels_leave_the_examples_they_came_from_alone():
    before = examples(reference=None)
    before.with_labels(GivenLabels.of([2] * 6))
    assert before.reference is None
    assert before.labels.values.tolist() == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ids": ["a"]}, r"differ in length: \{'inputs': 6, 'labels': 6, 'ids': 1\}"),
        ({"inputs": TensorInputs(VALUES[:4])}, r"\{'inputs': 4, 'labels': 6, 'ids': 6\}"),
        ({"labels": GivenLabels.of([0, 2])}, r"\{'inputs': 6, 'labels': 2, 'ids': 6\}"),
        ({"class_names": ("cat", "dog")}, "2 class names for 3 classes"),
    ],
)
def test_parts_that_do_not_agree_are_data_errors(changes, message):
    with pytest.raises(DataError, match=message):
        examples(**changes)


def test_new_labels_must_be_as_many():
    with pytest.raises(DataError, match="differ in length"):
        examples().with_labels(GivenLabels.of([0, 1, 2]))


def test_inputs_of_a_data_set_are_its_items_first_tensors():
    inputs = DatasetInputs(TensorDataset(VALUES, torch.arange(6)))
    assert len(inputs) == 6
    assert torch.equal(inputs.fetch(torch.tensor([4, 1])), VALUES[[4, 1]])


def test_a_data_sets_items_may_be_bare_tensors_or_lists():
    assert torch.equal(DatasetInputs(Items(*VALUES)).fetch(torch.tensor([3])), VALUES[[3]])
    assert torch.equal(DatasetInputs(Items([VALUES[0], 7])).fetch(torch.tensor([0])), VALUES[[0]])


@pytest.mark.parametrize(
    ("item", "kind"), [("picture", "str"), ((3, VALUES), "int"), ({"x": VALUES}, "dict")]
)
def test_an_item_that_is_no_tensor_is_named_with_a_remedy(item, kind):
    inputs = DatasetInputs(Items(VALUES, item))
    with pytest.raises(DataError) as caught:
        inputs.fetch(torch.tensor([1]))
    assert str(caught.value) == (
        f"data set item 1 begins with a {kind}, not a tensor; add a transform to tensors"
    )


def test_inputs_of_some_rows_are_renumbered():
    inputs = SubsetInputs(TensorInputs(VALUES), torch.tensor([4, 2]))
    assert len(inputs) == 2
    assert torch.equal(inputs.fetch(torch.tensor([1])), VALUES[[2]])


def test_rows_without_names_are_called_by_number():
    names = RowNumbers(3)
    assert list(names) == ["0", "1", "2"]
    assert names[-1] == "2"
    assert "1" in names
    with pytest.raises(IndexError):
        names[3]


def test_names_of_some_rows_are_the_bases():
    names = SubsetNames(RowNumbers(10), torch.tensor([7, 3]))
    assert list(names) == ["7", "3"]
    assert len(names) == 2
    with pytest.raises(IndexError):
        names[2]


def test_a_source_need_not_offer_a_test_split():
    assert Splits(examples()).test is None


def test_splits_have_the_same_classes_in_the_same_order():
    with pytest.raises(DataError, match="test: its 3 classes are not the 3 of the training examples"):
        Splits(examples(), examples(class_names=("dog", "cat", "eel")))
    labels = GivenLabels.of([0, 1, 2, 3, 1, 2])
    with pytest.raises(DataError, match="validation: its 4 classes are not the 3"):
        Splits(examples(), validation=examples(labels=labels, class_names=("cat", "dog", "eel", "fox")))


def test_a_split_without_examples_is_refused():
    with pytest.raises(DataError, match="test: it has no example; leave it out, or give it some"):
        Splits(examples(), examples().subset(torch.tensor([], dtype=torch.long)))
