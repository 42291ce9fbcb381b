"""A run's labels row by row say what the label table says."""

import csv
import json
from dataclasses import astuple

import pytest
import torch

from pencil.algorithm import cut
from pencil.export.rows import LabelRow, label_rows, write_json_list
from pencil.results import LabelChunk, write_labels
from pencil.run import learned_labels


def test_rows_say_what_the_label_table_says(run, rows, tmp_path):
    write_labels(tmp_path / "labels.csv", *learned_labels(run))
    with (tmp_path / "labels.csv").open(newline="", encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    assert [[str(value) for value in astuple(row)] for row in rows] == [list(line.values()) for line in table]
    assert {row.verdict for row in rows} == {"keep", "relabel", "review"}


def test_cut_distributions_are_taken_too():
    belief = torch.tensor([[0.1, 0.8, 0.05, 0.05]])
    chunk = LabelChunk(["a"], ["x"], cut(belief.log(), 2).softmax())
    (row,) = label_rows([chunk], ["w", "y", "x", "z"])
    assert row == LabelRow("a", "x", "y", pytest.approx(0.8, abs=2e-3), "relabel")


@pytest.mark.parametrize("items", [[], [1], [{"a": "ż\udcff"}, [2]]], ids=["none", "one", "two"])
def test_a_list_is_written_item_by_item(tmp_path, items):
    assert write_json_list(tmp_path / "list.json", iter(items), '{"all": [', "]}") == len(items)
    assert json.loads((tmp_path / "list.json").read_text()) == {"all": items}
