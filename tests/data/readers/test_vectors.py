"""Embeddings in a column of lists."""

import pytest
import torch

from pencil.data.readers.vectors import read_vectors, read_vectors_alone
from pencil.errors import DataError
from pencil.kinds import recognise

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
VECTORS = [[1.0, 2.0], [3.0, 4.5], [5.0, 6.0]]


@pytest.fixture
def write(tmp_path):
    def write(**columns):
        parquet.write_table(arrow.table(columns), tmp_path / "v.parquet")
        return tmp_path / "v.parquet"

    return write


def test_embeddings_labels_and_ids(write):
    path = write(Embedding=VECTORS, Class=["b", "a", "b"], id=["x", "y", "z"])
    assert recognise(str(path)).name == "features"
    train = read_vectors(path).train
    assert train.inputs.fetch(torch.arange(3)).tolist() == VECTORS
    assert (train.class_names, list(train.ids)) == (("a", "b"), ["x", "y", "z"])
    assert train.labels.values.tolist() == [1, 0, 1]


def test_a_column_of_another_name(write):
    path = write(clip=VECTORS, label=[0, 1, 0])
    assert read_vectors(path, columns={"features": "clip"}).train.inputs.values.shape == (3, 2)
    with pytest.raises(DataError, match=r"none of features; name it: --set data\.columns\.features=NAME"):
        read_vectors(path)


@pytest.mark.parametrize("wrong", [[1.0], None, [1.0, float("nan")]])
def test_lists_that_do_not_fit(write, wrong):
    path = write(embedding=[*VECTORS[:2], wrong], label=[0, 1, 0])
    with pytest.raises(
        DataError, match=r"v\.parquet: .*\n  row 3, column 'embedding': are .*; expected 2 finite numbers"
    ):
        read_vectors(path)
    splits = read_vectors(path, on_error="skip")
    assert splits.train.inputs.values.tolist() == VECTORS[:2]
    assert list(splits.skipped_rows) == ["row 3"]
    with pytest.raises(DataError, match=r"row 3, column 'embedding': are .*; expected 2 finite numbers"):
        read_vectors_alone(write(embedding=[*VECTORS[:2], wrong]), {})


def test_embeddings_without_labels(write):
    rows = read_vectors_alone(write(embedding=VECTORS), {})
    assert list(rows.ids) == ["0", "1", "2"]
    assert rows.inputs.values.tolist() == VECTORS
    assert read_vectors_alone(write(embedding=VECTORS, label=[0, 1, 0]), {}) is None


def test_a_first_list_of_another_length_does_not_cost_all_others(write):
    path = write(embedding=[[1.0], *VECTORS], label=[0, 1, 0, 1])
    with pytest.raises(DataError, match="the first list has 1 numbers, and 3 others have another number"):
        read_vectors(path, on_error="skip")
