"""Example data sets: made as told, read by their readers, and what is done with them comes out."""

import csv

import numpy as np
import pytest

import pencil
from pencil.cli.example import KINDS
from pencil.data import read_manifest, read_records, read_texts
from pencil.data.example import ROWS, write_example
from pencil.errors import DataError


def truth_of(folder):
    with (folder / "truth.csv").open(newline="") as file:
        return [row["label"] for row in csv.DictReader(file)]


def test_the_command_knows_all_kinds():
    assert tuple(ROWS) == KINDS


@pytest.mark.parametrize(
    ("kind", "read"), [("images", read_manifest), ("texts", read_texts), ("table", read_records)]
)
def test_one_label_in_five_is_wrong(tmp_path, kind, read):
    pytest.importorskip("PIL")
    train = read(write_example(kind, tmp_path / kind, 400)).train
    truth = np.array(truth_of(tmp_path / kind))
    given = np.array(train.class_names)[train.labels.hard.numpy()]
    assert len(truth) == len(train) == 400
    assert 0.12 < (given != truth).mean() < 0.28


def test_the_same_seed_writes_the_same_bytes(tmp_path):
    for kind in ("people", "texts"):
        one, two, other = (
            write_example(kind, tmp_path / f"{kind}{number}", 60, seed=min(number, 1)).read_bytes()
            for number in (0, 2, 1)
        )
        assert one != two == other


def test_a_folder_with_anything_in_it_is_left_alone(tmp_path):
    (tmp_path / "note").write_text("mine")
    with pytest.raises(DataError, match="is not empty"):
        write_example("table", tmp_path)


def test_most_errors_of_people_are_found():
    data = pencil.example()
    wrong = data.labels != data.truth
    assert 0.15 < wrong.mean() < 0.3
    found = pencil.find_errors(data.features, data.labels)
    assert found.noise.at_least <= wrong.mean()
    assert (found.labels() != data.truth).sum() < 0.2 * wrong.sum()
