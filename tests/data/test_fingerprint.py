"""Fingerprints: equal for equal data, different for any change of rows, ids, labels or sampled contents."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pencil.data import DatasetInputs, Examples, RowNumbers, TensorInputs
from pencil.data.fingerprint import CONTENTS, IDS, differences, fingerprint
from pencil.data.packed import PackedTexts
from pencil.data.readers.texts import TextInputs
from pencil.stores import GivenLabels


def examples(rows=50, classes=3, dims=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return Examples(
        inputs=TensorInputs(torch.randn(rows, dims, generator=generator)),
        labels=GivenLabels.of(torch.randint(classes, (rows,), generator=generator), classes),
        class_names=tuple(f"class {number}" for number in range(classes)),
        ids=[f"row {number}" for number in range(rows)],
    )


def changed(which, row=7):
    given = examples()
    if which == "labels":
        values = given.labels.values.clone()
        values[row] = (values[row] + 1) % 3
        return replace(given, labels=GivenLabels.of(values, 3))
    if which == "trusted":
        trusted = torch.zeros(50, dtype=torch.bool)
        trusted[row] = True
        return replace(given, labels=GivenLabels.of(given.labels.values, 3, trusted))
    if which == "ids":
        return replace(given, ids=[*given.ids[:row], "another", *given.ids[row + 1 :]])
    if which == "class names":
        return replace(given, class_names=("class 0", "class 1", "other"))
    if which == "order":
        return given.subset(torch.randperm(50, generator=torch.Generator().manual_seed(1)))
    values = given.inputs.values.clone()
    values[row] += 1e-6
    return replace(given, inputs=TensorInputs(values))


MANY = examples(rows=9000)


def test_the_same_data_has_the_same_fingerprint():
    assert fingerprint(examples()) == fingerprint(examples())
    assert not list(differences(fingerprint(examples()), fingerprint(examples())))


@pytest.mark.parametrize(
    ("which", "word"),
    [
        ("labels", "labels differ"),
        ("trusted", "labels differ"),
        ("ids", "ids differ"),
        ("class names", "class names differ"),
        ("order", "ids differ"),
        ("contents", "contents of examples differ"),
    ],
)
def test_a_change_is_named(which, word):
    assert word in list(differences(fingerprint(examples()), fingerprint(changed(which))))


def test_another_number_of_rows_is_all_there_is_to_say():
    found = list(differences(fingerprint(examples(50)), fingerprint(examples(49))))
    assert found == ["it had 50 rows and has 49"]


@settings(max_examples=30, deadline=None)
@given(row=st.integers(0, IDS + 904), other=st.integers(1, 2))
def test_every_label_counts_however_many_rows(row, other):
    rows = IDS + 905
    labels = torch.arange(rows) % 3
    many = Examples(
        TensorInputs(torch.zeros(rows, 1)), GivenLabels.of(labels, 3), ("a", "b", "c"), RowNumbers(rows)
    )
    moved = labels.clone()
    moved[row] = (moved[row] + other) % 3
    assert (
        fingerprint(many)["labels"] != fingerprint(replace(many, labels=GivenLabels.of(moved, 3)))["labels"]
    )


def test_contents_that_are_not_in_memory_are_read_at_a_bounded_number_of_rows():
    class Counting(torch.utils.data.Dataset):
        def __len__(self):
            return 1000

        def __getitem__(self, row):
            seen.add(row)
            return torch.zeros(4)

    seen = set()
    fingerprint(replace(examples(rows=1000), inputs=DatasetInputs(Counting())))
    assert len(seen) == CONTENTS


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_two_rows_that_change_places_are_noticed_wherever_they_are(data):
    """Ids, features and texts, of all rows or of some, far outside any sample."""
    rows = 9000
    one, two = data.draw(st.lists(st.integers(0, rows - 1), min_size=2, max_size=2, unique=True))
    order = torch.arange(rows)
    order[one], order[two] = two, one
    ids = [f"row {row}" for row in range(rows)]
    texts = PackedTexts(ids)
    kinds = {
        "ids": lambda order: replace(MANY, ids=[ids[row] for row in order.tolist()]),
        "packed": lambda order: replace(MANY, ids=PackedTexts(ids[row] for row in order.tolist())),
        "features": lambda order: replace(MANY, inputs=TensorInputs(MANY.inputs.values[order])),
        "texts": lambda order: replace(
            MANY, inputs=TextInputs(PackedTexts(texts[row] for row in order.tolist()))
        ),
        "which": lambda order: MANY.subset(order),
    }
    make = kinds[data.draw(st.sampled_from(sorted(kinds)))]
    assert fingerprint(make(order)) != fingerprint(make(torch.arange(rows)))
    assert fingerprint(make(order)) == fingerprint(make(order))


def test_it_says_whether_ids_are_row_numbers():
    given = examples()
    assert fingerprint(given)["numbered"] is False
    numbered = replace(given, ids=RowNumbers(50))
    assert fingerprint(numbered)["numbered"] is True
    assert fingerprint(numbered.subset(torch.tensor([1, 2])))["numbered"] is True
    assert fingerprint(numbered) != fingerprint(replace(given, ids=list(RowNumbers(50))))


def test_fingerprints_of_before_are_made_of_samples():
    """The values are those that runs of before hold."""
    numbers = GivenLabels.of(torch.arange(9000) % 3, 3)
    values = torch.arange(18000, dtype=torch.float32).view(9000, 2)
    many = Examples(TensorInputs(values), numbers, ("a", "b", "c"), RowNumbers(9000))
    assert fingerprint(many, sampled=True) == {
        "rows": 9000,
        "classes": 3124296860,
        "ids": 3371800743,
        "labels": 3819952779,
        "contents": 2201532538,
    }


def test_inputs_that_differ_at_every_look_do_not_count():
    class Shaky(torch.utils.data.Dataset):
        def __len__(self):
            return 50

        def __getitem__(self, row):
            return torch.rand(4)

    shaky = replace(examples(), inputs=DatasetInputs(Shaky()))
    assert fingerprint(shaky)["contents"] is None
    assert not list(differences(fingerprint(shaky), fingerprint(shaky)))
