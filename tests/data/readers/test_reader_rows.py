"""Rows of files of columns: labels that are missing, columns without a role."""

import json

import pytest
import torch

from pencil.data import read_texts, read_texts_alone
from pencil.data.encoding import ColumnEncoding
from pencil.data.pixels import encode_png
from pencil.data.readers.manifest import read_manifest, read_paths_alone
from pencil.data.readers.records import read_records, read_records_alone
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


def written(folder, text):
    (folder / "rows.csv").write_text(text)
    return folder / "rows.csv"


def test_ids_that_repeat_name_their_column_and_can_be_left_out(tmp_path):
    path = written(tmp_path, "text,label,filename\na,x,one.txt\nb,y,one.txt\n")
    told = r"row 2, column 'filename': 'one.txt' is also in row 1; .* --set 'data.columns.id=\"\"'"
    with pytest.raises(DataError, match=told):
        read_texts(path)
    assert list(read_texts(path, columns={"id": ""}).train.ids) == ["0", "1"]


@pytest.mark.parametrize("columns", [{"id": ""}, {"id": "", "split": ""}])
def test_a_column_whose_role_is_left_out_is_not_used(tmp_path, columns):
    path = written(tmp_path, "id,split,size,label\n7,train,4,x\n7,train,1,y\n9,other,9,x\n")
    found = read_records(path, columns=columns, on_error="skip").train
    assert list(found.ids) == (["0", "1", "2"] if "split" in columns else ["0", "1"])
    assert found.inputs.names == ("size",)


def test_labels_that_are_left_out_are_missing(tmp_path):
    path = written(tmp_path, "text,label\na,x\nb,y\n")
    with pytest.raises(DataError, match="none of labels"):
        read_texts(path, columns={"label": ""})
    assert list(read_texts_alone(path, {"label": ""}).ids) == ["0", "1"]
    assert read_texts_alone(path, {"label": "elsewhere"}) is None


ASKED = {"label": "species", "split": "part", "trusted": "checked", "votes": "counts"}


def test_new_rows_may_lack_columns_that_only_labelled_rows_need(manifest, tmp_path):
    assert list(read_paths_alone(manifest("path\na.png\n"), columns=ASKED).ids) == ["a.png"]
    assert list(read_texts_alone(written(tmp_path, "text\na\n"), ASKED).ids) == ["0"]
    size = ColumnEncoding("size", mean=0.0, scale=1.0)
    assert read_records_alone(written(tmp_path, "size\n3\n"), ASKED, [size]).inputs.values.tolist() == [[3]]
    with pytest.raises(DataError, match="no column 'author'"):
        read_texts_alone(written(tmp_path, "text\na\n"), {"id": "author"})


def test_new_rows_with_the_labels_asked_for_are_no_rows_without_labels(manifest):
    assert read_paths_alone(manifest("path,species\na.png,cat\n"), columns=ASKED) is None


@pytest.mark.parametrize("empty", ["", "nan"])
def test_columns_of_labels_that_are_empty_throughout_hold_none(manifest, tmp_path, empty):
    images = manifest(f"path,label,votes,votes_cat\na.png,{empty},,\nb.png,{empty},,\n")
    assert list(read_paths_alone(images).ids) == ["a.png", "b.png"]
    assert list(read_texts_alone(written(tmp_path, f"text,label\na,{empty}\nb,{empty}\n")).ids) == ["0", "1"]
    table = written(tmp_path, f"size,label\n3,{empty}\n4,{empty}\n")
    found = read_records_alone(table, {}, [ColumnEncoding("size", mean=0.0, scale=1.0)])
    assert found.inputs.values.tolist() == [[3], [4]]


@pytest.mark.parametrize("row", ["b,cat,", "b,,cat:1"])
def test_one_row_with_a_label_or_votes_makes_a_file_with_labels(tmp_path, row):
    path = written(tmp_path, f"text,label,votes\na,,\n{row}\n")
    assert read_texts_alone(path) is None
    assert list(read_texts_alone(path, {"label": "", "votes": ""}).ids) == ["0", "1"]


@pytest.mark.parametrize("row", [{"votes": []}, {"votes_cat": 0, "votes_dog": 0}, {"label": []}])
def test_rows_without_a_vote_have_no_label(tmp_path, row):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"text": text} | row) + "\n" for text in "ab"))
    assert list(read_texts_alone(path).ids) == ["0", "1"]


def test_votes_that_are_no_counts_are_reported_with_the_rows_that_have_labels(tmp_path):
    assert read_texts_alone(written(tmp_path, "text,votes\na,cat\n")) is None


def test_rows_with_too_many_cells_are_reported_also_without_labels(manifest):
    with pytest.raises(DataError, match=r"row 1, column .path.: the row has more or fewer cells"):
        read_paths_alone(manifest("path,label\na.png,,cat\nb.png,\n"))
