"""The label table, cell by cell."""

import csv
from dataclasses import astuple, replace

import pytest
import torch

from pencil.algorithm import TopRows, cut
from pencil.errors import ConfigError, RunError
from pencil.results import Decided, LabelRow, judge, label_rows, write_labels

NAMES = ("cat, big", "żółć", 'd"og')
IDS = ["a.png", "two\nlines", 'comma, quote" and \u2028']


def judged(ids, given, belief, **more):
    return judge(belief, None if given is None else torch.tensor(given), 0.7, ids=ids, **more)


def chunks():
    yield judged(IDS[:2], [0, 1], torch.tensor([[0.125, 0.75, 0.125], [0.0, 1 / 3, 2 / 3]]))
    yield judged(IDS[2:], [0], torch.tensor([[1.0, 0.0, 0.0]]), first=2)


def rows_of(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_csv_has_id_given_suggested_confidence_and_verdict(tmp_path):
    assert write_labels(tmp_path / "labels.csv", chunks(), NAMES) == 3
    assert rows_of(tmp_path / "labels.csv") == [
        ["id", "given_label", "suggested_label", "confidence", "p_wrong", "verdict"],
        ["a.png", "cat, big", "żółć", "0.75", "0.875", "relabel"],
        ["two\nlines", "żółć", 'd"og', "0.666667", "0.666667", "review"],
        [IDS[2], "cat, big", "cat, big", "1.0", "0.0", "keep"],
    ]


def test_csv_is_utf8_text_with_quotes_where_needed(tmp_path):
    write_labels(tmp_path / "labels.csv", list(chunks())[:1], NAMES)
    first = (tmp_path / "labels.csv").read_bytes().decode("utf-8").split("\r\n")[1]
    assert first == 'a.png,"cat, big",żółć,0.75,0.875,relabel'


def test_csv_with_the_whole_distribution(tmp_path):
    write_labels(tmp_path / "labels.csv", chunks(), NAMES, distribution=True)
    header, first, second, third = rows_of(tmp_path / "labels.csv")
    assert header[6:] == ["p_cat, big", "p_żółć", 'p_d"og']
    assert first[6:] == ["0.125", "0.75", "0.125"]
    assert second[6:] == ["0.0", "0.333333", "0.666667"]
    assert third[6:] == ["1.0", "0.0", "0.0"]


@pytest.mark.parametrize("distribution", [False, True])
def test_parquet_holds_the_same_as_csv(tmp_path, distribution):
    parquet = pytest.importorskip("pyarrow.parquet")
    for name in ("labels.csv", "labels.parquet"):
        assert write_labels(tmp_path / name, chunks(), NAMES, distribution=distribution) == 3
    table = parquet.read_table(tmp_path / "labels.parquet")
    header, *body = rows_of(tmp_path / "labels.csv")
    assert table.column_names == header
    found = [[str(value) for value in row.values()] for row in table.to_pylist()]
    assert found == body
    assert str(table.schema.field("confidence").type) == "double"


def test_ids_that_are_not_utf8_come_out_as_the_bytes_they_were(tmp_path):
    chunk = judged([b"\xff.png".decode("utf-8", "surrogateescape")], [0], torch.tensor([[1.0, 0.0]]))
    write_labels(tmp_path / "labels.csv", [chunk], ("a", "b"))
    assert b"\xff.png,a,a,1.0" in (tmp_path / "labels.csv").read_bytes()


def test_the_ending_decides_whatever_its_case_and_others_are_refused(tmp_path):
    assert write_labels(tmp_path / "LABELS.CSV", chunks(), NAMES) == 3
    with pytest.raises(ConfigError, match=r"labels.xlsx: the ending must be .csv or .parquet"):
        write_labels(tmp_path / "labels.xlsx", chunks(), NAMES)


def test_predictions_that_fail_halfway_leave_the_old_table(tmp_path):
    def failing():
        yield next(chunks())
        raise RunError("broken")

    (tmp_path / "labels.csv").write_text("old")
    with pytest.raises(RunError):
        write_labels(tmp_path / "labels.csv", failing(), NAMES)
    assert (tmp_path / "labels.csv").read_text() == "old"


def test_cut_distributions_are_written_as_the_whole_ones_they_stand_for(tmp_path):
    whole = torch.tensor([[0.1, 0.6, 0.1, 0.2], [0.15, 0.15, 0.1, 0.6]])
    top = TopRows(
        torch.tensor([[1, 3], [3, 2]]),
        torch.tensor([[0.6, 0.2], [0.6, 0.1]]),
        torch.tensor([[0.1], [0.15]]),
        4,
    )
    for name, belief in (("whole.csv", whole), ("cut.csv", top)):
        write_labels(tmp_path / name, [judged(IDS[:2], [0, 1], belief)], (*NAMES, "x"), distribution=True)
    assert (tmp_path / "cut.csv").read_text() == (tmp_path / "whole.csv").read_text()


def test_distributions_of_many_classes_are_written_a_few_rows_at_a_time(tmp_path, monkeypatch):
    write_labels(tmp_path / "at-once.csv", chunks(), NAMES, distribution=True)
    monkeypatch.setattr("pencil.results.labels.ENTRIES", 4)
    assert write_labels(tmp_path / "one-by-one.csv", chunks(), NAMES, distribution=True) == 3
    assert (tmp_path / "one-by-one.csv").read_text() == (tmp_path / "at-once.csv").read_text()


def test_decisions_are_a_column_and_decide_the_verdict(tmp_path):
    words = ["accepted", "kept", "dropped", ""]
    decided = Decided(torch.tensor([1, 2, 4, 0]), torch.tensor([1, 0, -1, -1]))
    chunk = judged(list("1234"), [0] * 4, torch.full((4, 2), 0.5), decided=decided)
    write_labels(tmp_path / "labels.csv", [chunk], ("a", "b"))
    with (tmp_path / "labels.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["decision"] for row in rows] == words
    assert [row["verdict"] for row in rows] == ["relabel", "keep", "drop", "keep"]
    assert [row["suggested_label"] for row in rows] == ["b", "a", "a", "a"]


def test_rows_without_labels_have_no_verdict_and_unknown_classes_keep_their_names(tmp_path):
    belief = torch.tensor([[0.9, 0.1]])
    write_labels(tmp_path / "bare.csv", [judged(["1"], None, belief)], ("a", "b"))
    write_labels(tmp_path / "new.csv", [judged(["1"], [2], belief)], ("a", "b", "c"), distribution=True)
    assert rows_of(tmp_path / "bare.csv") == [["id", "suggested_label", "confidence"], ["1", "a", "0.9"]]
    assert rows_of(tmp_path / "new.csv") == [
        ["id", "given_label", "suggested_label", "confidence", "p_wrong", "verdict", "p_a", "p_b"],
        ["1", "c", "a", "0.9", "1.0", "relabel", "0.9", "0.1"],
    ]


def test_formulas_are_quoted_on_request_alone(tmp_path):
    hostile = [judged(["=cmd|' /C calc'!A0", "plain"], [0, 1], torch.eye(2))]
    write_labels(tmp_path / "raw.csv", hostile, ["@a", "b"])
    write_labels(tmp_path / "quoted.csv", hostile, ["@a", "b"], spreadsheet=True)
    assert [row[:3] for row in rows_of(tmp_path / "raw.csv")[1:]] == [
        ["=cmd|' /C calc'!A0", "@a", "@a"],
        ["plain", "b", "b"],
    ]
    assert [row[:3] for row in rows_of(tmp_path / "quoted.csv")[1:]] == [
        ["'=cmd|' /C calc'!A0", "'@a", "'@a"],
        ["plain", "b", "b"],
    ]


@pytest.mark.parametrize("end", ["csv", "parquet"])
def test_labels_to_use_are_a_column_if_asked_for(tmp_path, end):
    decided = Decided(torch.tensor([0, 4, 0]), torch.tensor([-1, -1, -1]))
    belief = torch.tensor([[0.1, 0.8, 0.1], [0.1, 0.8, 0.1], [0.5, 0.4, 0.1]])
    rows = judged(["a", "b", "c"], [0, 0, 0], belief, decided=decided)
    learned = replace(rows, best=torch.tensor([2, 2, 1]))
    labels = {}
    for take, each in (("sure", learned), ("best", learned), ("best", rows)):
        path = tmp_path / f"labels.{end}"
        write_labels(path, [each], NAMES, take=take)
        if end == "csv":
            header, *cells = rows_of(path)
            found = [row[header.index("label")] for row in cells]
        else:
            found = pytest.importorskip("pyarrow.parquet").read_table(path)["label"].to_pylist()
        labels[take, each is learned] = found
    assert labels["sure", True] == [NAMES[1], "", NAMES[0]]  # replaced, dropped, kept
    assert labels["best", True] == [NAMES[2], "", NAMES[1]]  # learned, dropped, learned
    assert labels["best", False] == [NAMES[1], "", NAMES[0]]  # without learned labels the suggestion


def test_rows_one_by_one_say_what_the_table_says(tmp_path):
    write_labels(tmp_path / "labels.csv", chunks(), NAMES)
    rows = [[str(value) for value in astuple(row)] for row in label_rows(chunks(), NAMES)]
    assert rows == rows_of(tmp_path / "labels.csv")[1:]


def test_cut_distributions_are_taken_row_by_row_too():
    chunk = judged(["a"], [2], cut(torch.tensor([[0.1, 0.8, 0.05, 0.05]]).log(), 2).softmax())
    (row,) = label_rows([chunk], ["w", "y", "x", "z"])
    assert row == LabelRow(
        "a", "x", "y", pytest.approx(0.8, abs=2e-3), pytest.approx(0.95, abs=2e-3), "relabel"
    )


def compared():
    groups, scores = torch.tensor([-1, 0, 0]), torch.tensor([2.5, 0.0, 0.0])
    for chunk in chunks():
        rows = slice(chunk.first, chunk.first + len(chunk))
        yield replace(chunk, group=groups[rows], outlier=scores[rows])


def test_near_identical_rows_and_outliers_have_columns(tmp_path):
    write_labels(tmp_path / "labels.csv", compared(), NAMES, distribution=True)
    header, *rows = rows_of(tmp_path / "labels.csv")
    assert header[6:8] == ["duplicates", "outlier"]
    assert [row[6:8] for row in rows] == [["", "2.5"], ["0", ""], ["0", ""]]


def test_parquet_has_numbers_and_gaps_in_every_chunk(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    write_labels(tmp_path / "labels.parquet", compared(), NAMES)
    table = parquet.read_table(tmp_path / "labels.parquet")
    assert table["duplicates"].to_pylist() == [None, 0, 0]
    assert table["outlier"].to_pylist() == [2.5, None, None]
    assert [str(table.schema.field(name).type) for name in ("duplicates", "outlier")] == ["int64", "double"]


def test_a_class_named_wrong_has_a_column_of_its_own(tmp_path):
    chunk = judged(["a"], [0], torch.tensor([[0.75, 0.25]]))
    write_labels(tmp_path / "labels.csv", [chunk], ("right", "wrong"), distribution=True)
    header, row = rows_of(tmp_path / "labels.csv")
    found = dict(zip(header, row, strict=True))
    assert (found["p_wrong"], found["p_right"], found["p_class_wrong"]) == ("0.25", "0.75", "0.25")


@pytest.mark.parametrize("name", ["labels.csv", "labels.parquet"])
def test_chunks_without_rows_change_nothing(tmp_path, name):
    parquet = pytest.importorskip("pyarrow.parquet")
    (first, second), none = chunks(), torch.tensor([], dtype=torch.long)
    assert write_labels(tmp_path / name, [first.take(none), first, second.take(none), second], NAMES) == 3
    assert write_labels(tmp_path / f"plain-{name}", chunks(), NAMES) == 3
    read = rows_of if name.endswith("csv") else parquet.read_table
    assert read(tmp_path / name) == read(tmp_path / f"plain-{name}")
    assert write_labels(tmp_path / f"none-{name}", [first.take(none)], NAMES) == 0


def test_parquet_has_ids_that_are_not_utf8(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    chunk = judged([b"\xff.png".decode("utf-8", "surrogateescape")], [0], torch.tensor([[1.0, 0.0]]))
    write_labels(tmp_path / "labels.parquet", [chunk], ("a", "b"))
    assert parquet.read_table(tmp_path / "labels.parquet").to_pylist()[0]["id"] == r"\udcff.png"
