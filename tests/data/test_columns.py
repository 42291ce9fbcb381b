"""Files of columns: what they hold, and data sets that Hugging Face saved."""

import json

import pytest

from pencil.data import Text, read_texts, shown
from pencil.data.columns import open_columns
from pencil.data.packed import PackedTexts
from pencil.data.recognise import holds
from pencil.errors import DataError
from pencil.kinds import recognise


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("path,label\na.png,x\n", "manifest"),
        ("FileName;Class\na.png;x\n", "manifest"),
        ("text,label\nhello,x\n", "text"),
        ("file,text,label\n17,hello,x\n", "text"),
        ("remark,label\nthe cat sat on it,x\nthe dog ran over there,y\n", "text"),
        ("a,b,c,remark,label\n1,2,3,the cat sat on it,x\n4,5,6,the dog ran over there,y\n", "table"),
        ("a,b,label\n1,2,x\n", "table"),
        ("review,label\n5,x\n4,y\n", "table"),
        ("", "table"),
    ],
)
def test_csv_files_are_recognised_by_their_columns(tmp_path, text, kind):
    path = tmp_path / "data.csv"
    path.write_text(text)
    assert holds(path) == kind
    assert recognise(str(path)).name == kind


def test_a_saved_data_set_of_hugging_face(tmp_path):
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["neg", "pos"])}
    )

    def part(*texts):
        return datasets.Dataset.from_dict(
            {"text": list(texts), "label": [row % 2 for row in range(len(texts))]}, features=features
        )

    datasets.DatasetDict({"train": part("a", "b", "c"), "test": part("d")}).save_to_disk(tmp_path / "all")
    part("a", "b", "c").save_to_disk(tmp_path / "one")
    assert recognise(str(tmp_path / "all")).name == recognise(str(tmp_path / "one")).name == "text"
    splits = read_texts(tmp_path / "all")
    assert (splits.train.class_names, splits.train.labels.values.tolist()) == (("neg", "pos"), [0, 1, 0])
    assert shown(splits.test.inputs, 0) == Text("d")
    assert len(read_texts(tmp_path / "one").train) == 3


def test_a_saved_data_set_does_not_lead_elsewhere(tmp_path):
    (tmp_path / "state.json").write_text(json.dumps({"_data_files": [{"filename": "../secret.arrow"}]}))
    with pytest.raises(DataError, match=r"names the file '\.\./secret\.arrow', which is not in it"):
        open_columns(tmp_path)


@pytest.mark.parametrize(
    "content", [{"volume": 3}, [1, 2], {"_data_files": [3]}, {"_data_files": []}, "text"]
)
def test_a_state_of_something_else_is_no_data_set(tmp_path, content):
    (tmp_path / "state.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match="save it again"):
        open_columns(tmp_path)


def test_json_that_is_not_rows(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"text": "a"}\n[1]\n')
    with pytest.raises(DataError, match=r"x\.jsonl, line 2: is not an object"):
        list(open_columns(path).rows())
    path.write_text('{"text": "a"\n')
    with pytest.raises(DataError, match=r"x\.jsonl, line 1: is not valid JSON"):
        open_columns(path)


def test_packed_texts_are_a_sequence():
    texts = PackedTexts(["a", "", "ż🦉", "\ud800"])
    assert list(texts) == ["a", "", "ż🦉", "\ud800"]
    assert texts[1:3] == ["", "ż🦉"]
    assert texts[-2] == "ż🦉"
    assert texts.checksum != PackedTexts(["a", "ż🦉", "", "\ud800"]).checksum
