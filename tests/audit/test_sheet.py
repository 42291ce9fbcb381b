"""The sample as a CSV: texts beside the choices, answers by name or letter."""

import csv
from dataclasses import replace
from types import SimpleNamespace

import pytest

from pencil.audit import Wanted, begin, read_sheet, sheet, texts_of, write_sheet
from pencil.data import Beside, Record, Text
from pencil.errors import DataError
from pencil.run import own_examples


@pytest.fixture
def audit(run, labels):
    return begin(run, labels, Wanted(looks=10, seed=5))


@pytest.fixture
def with_texts(run, monkeypatch):
    """The data of the run, shown as texts and records."""
    examples = own_examples(run).train

    class Notes(type(examples.inputs)):
        def shown(self, index):
            return Text(f"=note {index}") if index % 2 else Record({"number": index, "place": "shelf"})

    notes = Notes(**vars(examples.inputs))
    shown = SimpleNamespace(train=replace(examples, inputs=notes))
    monkeypatch.setattr(sheet, "rows_to_show", lambda *_, **__: shown)
    return shown


def lines_of(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_texts_and_records_are_written(run, audit, with_texts, tmp_path):
    write_sheet(tmp_path / "s.csv", audit, texts_of(run))
    for line, item in zip(lines_of(tmp_path / "s.csv"), audit.items, strict=True):
        text = f"'=note {item.row}" if item.row % 2 else f"number: {item.row}\nplace: shelf"
        assert line["text"].replace("\\u000a", "\n") == text
    with_texts.train = replace(with_texts.train, ids=with_texts.train.ids[::-1])
    with pytest.raises(DataError, match="restore the data of the run"):
        write_sheet(tmp_path / "s.csv", audit, texts_of(run))


def test_plain_numbers_and_missing_data_have_no_texts(run, audit, tmp_path):
    assert texts_of(run) is None
    write_sheet(tmp_path / "s.csv", audit, None)
    assert "text" not in lines_of(tmp_path / "s.csv")[0]


def test_answers_are_class_names_or_letters(audit, tmp_path):
    item = audit.items[0]
    (tmp_path / "s.csv").write_text("look;answer\n1;b\n2;C\n3;?\n")
    assert list(read_sheet(tmp_path / "s.csv", audit, item.choices)) == [
        (1, item.choices[1]),
        (2, audit.items[1].choices[2]),
        (3, None),
    ]
    (tmp_path / "s.csv").write_text("look,other\n1,b\n")
    with pytest.raises(DataError, match="keep the columns look and answer"):
        list(read_sheet(tmp_path / "s.csv", audit, item.choices))


def test_a_letter_that_is_a_class_is_no_choice(audit, tmp_path):
    names, path = ["B", *audit.items[0].choices], tmp_path / "s.csv"
    write_sheet(path, audit, None, names)
    assert list(lines_of(path)[0]) == ["look", "id", *sheet.WORDS, "answer"]
    path.write_text("look,answer\n1,B\n")
    assert list(read_sheet(path, audit, names)) == [(1, "B")]
    for said in ("b", "a"):
        path.write_text(f"look,answer\n1,{said}\n")
        with pytest.raises(DataError, match=rf"the answer '{said}' is no class.*; use a class name, or \?"):
            list(read_sheet(path, audit, names))
    write_sheet(path, audit, None)
    with pytest.raises(DataError, match="columns a, b, c are names of classes too; write the file anew"):
        list(read_sheet(path, audit, names))


def test_a_class_called_like_no_answer_needs_the_page(audit, tmp_path):
    (tmp_path / "s.csv").write_text("look,answer\n1,?\n")
    with pytest.raises(
        DataError, match=r"\? is a class and also means that you cannot tell; answer with --page"
    ):
        list(read_sheet(tmp_path / "s.csv", audit, ["?", *audit.items[0].choices]))


def test_texts_beside_the_data_are_written(run, audit, tmp_path):
    rows = len(own_examples(run).source.train)
    (tmp_path / "texts.txt").write_text("".join(f"note {row}\n" for row in range(rows)))
    write_sheet(tmp_path / "s.csv", audit, texts_of(run, beside=Beside("texts", tmp_path / "texts.txt")))
    assert [line["text"] for line in lines_of(tmp_path / "s.csv")] == [
        f"note {item.id}" for item in audit.items
    ]


def test_ids_that_name_the_given_label_are_noticed(audit):
    assert not sheet.ids_name_labels(audit)
    (draw,) = audit.draws
    items = [item.model_copy(update={"id": f"photos/{item.given}/{item.row}.jpg"}) for item in draw.items]
    assert sheet.ids_name_labels(replace(audit, draws=[draw.model_copy(update={"items": items})]))
