"""Keys of content: equal for equal rows alone, and the same whether a row is fetched alone or among others."""

import hashlib
from dataclasses import dataclass

import torch

from pencil.data import Image, Record, TensorInputs, Text, known_keys, row_keys
from pencil.data.inputs import SubsetInputs, content


def test_rows_have_equal_keys_exactly_if_their_content_is_equal():
    values = torch.randn(20, 5)
    values[7] = values[3]
    keys = row_keys(TensorInputs(values))
    assert keys[7] == keys[3]
    assert len(keys.unique()) == 19
    assert not set(row_keys(TensorInputs(values.double())).tolist()) & set(keys.tolist())
    assert not set(row_keys(TensorInputs(values.reshape(20, 5, 1))).tolist()) & set(keys.tolist())


def test_a_key_is_the_checksum_of_a_rows_content(monkeypatch):
    monkeypatch.setattr("pencil.data.keys.ROWS", 3)
    inputs = SubsetInputs(TensorInputs(torch.arange(40.0).half().reshape(10, 4)), torch.tensor([9, 2, 2, 5]))
    wanted = [hashlib.blake2b(content(inputs, row), digest_size=8).digest() for row in range(4)]
    assert row_keys(inputs).numpy().tobytes() == b"".join(wanted)


@dataclass(frozen=True)
class Seen:
    """Rows that all have the same values, and are shown as they are."""

    rows: list

    def __len__(self):
        return len(self.rows)

    def fetch(self, indices):
        return torch.zeros(len(indices), 2)

    def shown(self, index):
        return self.rows[index]


def test_rows_that_look_different_have_different_keys():
    long = torch.zeros(5000)  # printed, most of it is left out
    other = long.clone()
    other[2500] = 1
    records = [{"a": 1, "b": 2}, {"a": 2, "b": 1}, {"b": 1, "c": 2}, {"a": long}, {"a": other}]
    images = torch.arange(24, dtype=torch.uint8).reshape(2, 3, 2, 2)
    rows = [*map(Text, ("word", "words")), *map(Record, records), *map(Image, images), None]
    keys = row_keys(Seen(rows + rows))
    assert len(keys.unique()) == len(rows)
    assert torch.equal(*keys.chunk(2))
    assert torch.equal(row_keys(Seen([rows[-2]])), row_keys(TensorInputs(images[1:])))


def test_keys_are_known_for_inputs_in_memory_alone():
    class Files:
        is_lazy = True

        def __len__(self):
            return 2

        def fetch(self, indices):
            raise AssertionError("read for a key")

        def content(self, index):
            raise AssertionError("read for a key")

    class Keyed(Files):
        keys = torch.tensor([5, 6])

    assert known_keys(Files()) is None
    assert known_keys(SubsetInputs(Keyed(), torch.tensor([1, 0]))).tolist() == [6, 5]
    assert known_keys(TensorInputs(torch.zeros(3, 2))).shape == (3,)


def test_no_rows_have_no_keys():
    assert row_keys(TensorInputs(torch.zeros(0, 4))).shape == (0,)
