"""Texts and labels in files of columns."""

import json

import pytest
import torch

from pencil.data import Text, read_texts, read_texts_alone, shown
from pencil.errors import ConfigError, DataError
from pencil.stores import GivenLabels

QUESTIONS = ["How far is it?", "Who was she?", "Where is Oslo?", "Who, then?"]
LABELS = ["NUM", "HUM", "LOC", "HUM"]


@pytest.fixture
def write(tmp_path):
    def write(text, name="q.csv", encoding="utf-8"):
        path = tmp_path / name
        path.write_text(text, encoding=encoding, newline="")
        return path

    return write


def lines(divider=",", header=("text", "label")):
    rows = [header, *((f'"{text}"', label) for text, label in zip(QUESTIONS, LABELS, strict=True))]
    return "".join(divider.join(row) + "\r\n" for row in rows)


def check(splits):
    train = splits.train
    assert [shown(train.inputs, row) for row in range(4)] == [Text(text) for text in QUESTIONS]
    assert [train.class_names[label] for label in train.labels.hard.tolist()] == LABELS
    assert list(train.ids) == ["0", "1", "2", "3"]


@pytest.mark.parametrize("divider", [",", ";", "\t", "|"])
@pytest.mark.parametrize("header", [("text", "label"), ("Question", "CLASS"), (" Sentence ", "y")])
def test_delimiters_and_names_of_columns(write, divider, header):
    check(read_texts(write(lines(divider, header))))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_encodings(write, encoding):
    check(read_texts(write(lines(), encoding=encoding)))


def test_latin_1_is_refused_with_the_remedy(write):
    with pytest.raises(DataError, match=r"q\.csv: cannot be read as text .* save it as CSV in UTF-8"):
        read_texts(write("text,label\nné,a\nx,b\n", encoding="latin-1"))


def test_json_lines_and_a_list(write):
    rows = [{"question": text, "label": label} for text, label in zip(QUESTIONS, LABELS, strict=True)]
    check(read_texts(write("\n".join(map(json.dumps, rows)) + "\n\n", "q.jsonl")))
    check(read_texts(write(json.dumps(rows), "q.json")))


def test_parquet_and_arrow(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    table = arrow.table({"text": QUESTIONS, "label": LABELS})
    arrow.parquet = pytest.importorskip("pyarrow.parquet")
    arrow.parquet.write_table(table, tmp_path / "q.parquet")
    check(read_texts(tmp_path / "q.parquet"))
    with arrow.ipc.new_stream(str(tmp_path / "q.arrow"), table.schema) as file:
        file.write_table(table)
    check(read_texts(tmp_path / "q.arrow"))


def test_ids_splits_trust_and_votes(write):
    path = write(
        "id,text,label,split,trusted,votes\n"
        "a,one,x,train,yes,\nb,two,y,test,,\nc,three,,train,,x:1 y:3\nd,four,y,train,no,\n"
    )
    splits = read_texts(path)
    assert list(splits.train.ids) == ["a", "c", "d"]
    assert list(splits.test.ids) == ["b"]
    assert splits.train.labels.trusted.tolist() == [True, False, False]
    assert splits.train.labels.values.tolist() == [[1, 0], [0.25, 0.75], [0, 1]]


def test_columns_are_chosen_by_setting(write):
    path = write("a,b,text\nfirst,x,1\nsecond,y,2\n")
    train = read_texts(path, columns={"text": "a", "label": "b"}).train
    assert shown(train.inputs, 1) == Text("second")
    assert train.class_names == ("x", "y")


def test_a_column_of_long_texts_needs_no_name(write):
    train = read_texts(write("topic words,label\nthe cat sat on a mat,x\na dog ran over the hill,y\n")).train
    assert shown(train.inputs, 0) == Text("the cat sat on a mat")


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        ("text,size\na,1\n", {}, "found the columns text, size, and none of labels.*data.columns.label=NAME"),
        ("a,label\n1,x\n", {}, "found the columns a, label, and none of texts.*data.columns.text=NAME"),
        ("text,label\na,\nb,y\n", {}, "row 1, column 'label': is empty"),
        ("text,label\n ,x\nb,y\n", {}, "row 1, column 'text': is empty"),
        ("text,label\na,b,c\n", {}, "row 1, column 'text': the row has more or fewer cells"),
        ("id,text,label\n1,a,x\n1,b,y\n", {}, "row 2, column 'id': '1' is also in row 1"),
        ("text,label\n", {}, "the table has no rows"),
        (
            "question,content,label\na,b,x\n",
            {},
            "question and content could all be the text.*data.columns.text=",
        ),
        (
            "text,label\na,x\n",
            {"label": "lable"},
            "no column 'lable' for data.columns.label; .*found text, label",
        ),
    ],
)
def test_mistakes_name_the_row_and_the_remedy(write, text, columns, message):
    with pytest.raises(DataError, match=message):
        read_texts(write(text), columns=columns)


def test_an_unknown_role_is_named(write):
    with pytest.raises(ConfigError, match=r"data\.columns\.words: no such role; use text, id, label"):
        read_texts(write(lines()), columns={"words": "text"})


def test_labels_that_are_not_classes(write):
    rows = "".join(f"text {row},{row / 7}\n" for row in range(60))
    with pytest.raises(DataError, match="60 different values in 60 rows, so they are not classes"):
        read_texts(write("text,label\n" + rows))


def test_bad_rows_are_left_out_and_listed(write):
    splits = read_texts(write("text,label\na,x\n,x\nb,y\nc,\n"), on_error="skip")
    assert list(splits.train.ids) == ["0", "2"]
    assert list(splits.skipped_rows) == ["row 2", "row 4"]


def test_texts_without_labels(write):
    rows = read_texts_alone(write("question\nWho?\nWhere?\n"))
    assert rows is not None
    assert list(rows.ids) == ["0", "1"]
    assert shown(rows.inputs, 1) == Text("Where?")
    assert read_texts_alone(write(lines())) is None
    asked = {"text": "question", "label": "kind"}
    assert read_texts_alone(write("question\nWho?\n"), asked) is not None
    with pytest.raises(
        DataError, match="row 2, column 'question': the row has more or fewer cells than the header"
    ):
        read_texts_alone(write("question\nWho?\nHello, how are you?\n"))


def test_texts_have_no_tensors_but_a_checksum(write):
    inputs = read_texts(write(lines())).train.inputs
    with pytest.raises(DataError, match="--embed ngrams"):
        inputs.fetch(torch.tensor([0]))
    other = read_texts(write(lines().replace("Oslo", "Rome"))).train.inputs
    assert inputs.checksum != other.checksum
    assert isinstance(read_texts(write(lines())).train.labels, GivenLabels)


def test_classes_of_equal_value_have_an_order_of_their_own(write):
    """An order that depends on the process would number them differently on every rank."""
    found = read_texts(write("text,label\na,1\nb,01\nc,001\nd,0\n")).train.class_names
    assert found == ("0", "001", "01", "1")


def test_half_a_character_is_replaced(tmp_path):
    (tmp_path / "t.jsonl").write_text(
        '{"text": "cut \\ud83d", "label": "a"}\n{"text": "whole", "label": "b"}\n'
    )
    train = read_texts(tmp_path / "t.jsonl").train
    assert shown(train.inputs, 0) == Text("cut \ufffd")
