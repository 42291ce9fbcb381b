"""Labels of texts, tables and vectors: votes, classes, several labels."""

import json

import pytest

from pencil.data import read_texts
from pencil.errors import DataError


@pytest.fixture
def write(tmp_path):
    def write(*rows):
        path = tmp_path / "rows.jsonl"
        path.write_text("".join(json.dumps({"text": f"text {n}"} | row) + "\n" for n, row in enumerate(rows)))
        return path

    return write


def test_lists_of_votes_are_by_class_number(write):
    train = read_texts(write({"label": 1, "votes": [3, 1]}, {"label": 1}, {"label": 0, "votes": []})).train
    assert train.class_names == ("0", "1")
    assert train.labels.values.tolist() == [[0.75, 0.25], [0, 1], [1, 0]]


def test_lists_of_votes_beside_names_make_no_classes(write):
    path = write({"label": "cat"}, {"label": "dog", "votes": [3, 1]})
    with pytest.raises(
        DataError, match=r"rows\.jsonl: the class 'cat' is no position .* 2 counts; write the votes"
    ):
        read_texts(path, on_error="skip")


def test_lists_of_votes_have_one_length(write):
    path = write({"votes": [3, 1]}, {"votes": [0, 1]}, {"votes": [1, 2, 0]})
    with pytest.raises(DataError, match="row 3, column 'votes': 3 counts, where other rows have 2"):
        read_texts(path)
    assert len(read_texts(path, on_error="skip").train) == 2


def test_one_odd_list_of_votes_does_not_leave_out_all_others(write):
    path = write({"votes": [1, 2, 0]}, {"votes": [3, 1]}, {"votes": [0, 1]})
    with pytest.raises(
        DataError, match="the first list of votes has 3 counts, most others have 2; fix or remove"
    ):
        read_texts(path, on_error="skip")


def test_lists_of_votes_follow_the_class_names_of_the_file(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    features = {"text": {"_type": "Value"}, "label": {"_type": "ClassLabel", "names": ["dog", "cat"]}}
    stored = {"huggingface": json.dumps({"info": {"features": features}})}
    columns = {"text": ["a", "b", "c"], "label": [0, 1, 1], "votes": [[3, 1], None, []]}
    table = arrow.table(columns).replace_schema_metadata(stored)
    with arrow.ipc.new_stream(str(tmp_path / "rows.arrow"), table.schema) as file:
        file.write_table(table)
    train = read_texts(tmp_path / "rows.arrow").train
    assert train.class_names == ("dog", "cat")
    assert train.labels.values.tolist() == [[0.75, 0.25], [0, 1], [0, 1]]


@pytest.mark.parametrize("several", [["cat", "dog"], {"cat": 1}])
def test_several_labels_in_one_cell_are_no_class(write, several):
    path = write({"label": "cat"}, {"label": several}, {"label": "dog"})
    with pytest.raises(
        DataError, match=r"row 2, column 'label': holds several labels, .*cat.*; give one label per row"
    ):
        read_texts(path)
    assert read_texts(path, on_error="skip").train.class_names == ("cat", "dog")


def test_a_list_with_one_label_is_that_label_and_an_empty_one_is_none(write):
    path = write({"label": ["cat"]}, {"label": "dog"}, {"label": []})
    with pytest.raises(DataError, match="row 3, column 'label': is empty"):
        read_texts(path)
    assert read_texts(path, on_error="skip").train.class_names == ("cat", "dog")
