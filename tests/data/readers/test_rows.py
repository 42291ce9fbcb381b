"""Rows of files of columns: labels that are missing, columns without a role."""

import pytest
import torch

from pencil.data.pixels import encode_png
from pencil.data.readers.manifest import read_manifest
from pencil.errors import DataError

pytest.importorskip("PIL")


@pytest.fixture
def manifest(tmp_path):
    """Writes a manifest of the images a.png to d.png."""
    for name in "abcd":
        (tmp_path / f"{name}.png").write_bytes(encode_png(torch.zeros(3, 2, 2, dtype=torch.uint8)))

    def write(text):
        (tmp_path / "table.csv").write_text(text)
        return tmp_path / "table.csv"

    return write


def test_a_label_that_is_nan_is_missing(manifest):
    path = manifest("path,label\na.png,cat\nb.png,nan\nc.png,NaN\nd.png,cat\n")
    with pytest.raises(
        DataError, match=r"row 2, column 'label': is empty.*\n.*row 3, column 'label': is empty"
    ):
        read_manifest(path)
    assert list(read_manifest(path, on_error="skip").train.ids) == ["a.png", "d.png"]


def test_a_label_that_is_nan_leaves_votes_and_given_class_names_alone(manifest):
    votes = manifest("path,label,votes\na.png,nan,cat:2 dog:1\nb.png,dog,\n")
    assert read_manifest(votes).train.class_names == ("cat", "dog")
    named = manifest("path,label\na.png,nan\nb.png,pita\n")
    assert read_manifest(named, class_names=["nan", "pita"]).train.labels.values.tolist() == [0, 1]
