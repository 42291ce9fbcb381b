"""Fingerprints: equal for equal data, different for any change of rows, ids, labels or sampled contents."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pencil.data import DatasetInputs, Examples, RowNumbers, TensorInputs
from pencil.data.fingerprint import CONTENTS, IDS, differences, fingerprint
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


def test_contents_are_read_at_a_bounded_number_of_rows():
    class Counting(TensorInputs):
        def fetch(self, indices):
            seen.append(len(indices))
            return super().fetch(indices)

    seen = []
    many = examples(rows=1000)
    fingerprint(replace(many, inputs=Counting(many.inputs.values)))
    assert max(seen) == CONTENTS


def test_inputs_that_differ_at_every_look_do_not_count():
    class Shaky(torch.utils.data.Dataset):
        def __len__(self):
            return 50

        def __getitem__(self, row):
            return torch.rand(4)

    shaky = replace(examples(), inputs=DatasetInputs(Shaky()))
    assert fingerprint(shaky)["contents"] is None
    assert not list(differences(fingerprint(shaky), fingerprint(shaky)))
