"""The label table, cell by cell."""

import csv

import pytest
import torch

from pencil.algorithm import TopRows
from pencil.errors import ConfigError, RunError
from pencil.results import KEEP, REVIEW, LabelChunk, write_labels

NAMES = ("cat, big", "żółć", 'd"og')
IDS = ["a.png", "two\nlines", 'comma, quote" and \u2028']


def chunks():
    yield LabelChunk(IDS[:2], NAMES[:2], torch.tensor([[0.125, 0.75, 0.125], [0.0, 1 / 3, 2 / 3]]))
    yield LabelChunk(IDS[2:], NAMES[:1], torch.tensor([[1.0, 0.0, 0.0]]))


def rows_of(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_csv_has_id_given_suggested_confidence_and_verdict(tmp_path):
    assert write_labels(tmp_path / "labels.csv", chunks(), NAMES) == 3
    assert rows_of(tmp_path / "labels.csv") == [
        ["id", "given_label", "suggested_label", "confidence", "verdict"],
        ["a.png", "cat, big", "żółć", "0.75", "relabel"],
        ["two\nlines", "żółć", 'd"og', "0.666667", "review"],
        [IDS[2], "cat, big", "cat, big", "1.0", "keep"],
    ]


def test_csv_is_utf8_text_with_quotes_where_needed(tmp_path):
    write_labels(tmp_path / "labels.csv", list(chunks())[:1], NAMES)
    first = (tmp_path / "labels.csv").read_bytes().decode("utf-8").split("\r\n")[1]
    assert first == 'a.png,"cat, big",żółć,0.75,relabel'


def test_csv_with_the_whole_distribution(tmp_path):
    write_labels(tmp_path / "labels.csv", chunks(), NAMES, distribution=True)
    header, first, second, third = rows_of(tmp_path / "labels.csv")
    assert header[5:] == ["p_cat, big", "p_żółć", 'p_d"og']
    assert first[5:] == ["0.125", "0.75", "0.125"]
    assert second[5:] == ["0.0", "0.333333", "0.666667"]
    assert third[5:] == ["1.0", "0.0", "0.0"]


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
    chunk = LabelChunk([b"\xff.png".decode("utf-8", "surrogateescape")], ["a"], torch.tensor([[1.0, 0.0]]))
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
    cut = TopRows(
        torch.tensor([[1, 3], [3, 2]]),
        torch.tensor([[0.6, 0.2], [0.6, 0.1]]),
        torch.tensor([[0.1], [0.15]]),
        4,
    )
    for name, belief in (("whole.csv", whole), ("cut.csv", cut)):
        write_labels(
            tmp_path / name, [LabelChunk(IDS[:2], NAMES[:2], belief)], (*NAMES, "x"), distribution=True
        )
    assert (tmp_path / "cut.csv").read_text() == (tmp_path / "whole.csv").read_text()


def test_distributions_of_many_classes_are_written_a_few_rows_at_a_time(tmp_path, monkeypatch):
    write_labels(tmp_path / "at-once.csv", chunks(), NAMES, distribution=True)
    monkeypatch.setattr("pencil.results.labels.ENTRIES", 4)
    assert write_labels(tmp_path / "one-by-one.csv", chunks(), NAMES, distribution=True) == 3
    assert (tmp_path / "one-by-one.csv").read_text() == (tmp_path / "at-once.csv").read_text()


def test_a_trusted_row_is_kept_however_unsure_the_belief_is():
    belief = torch.tensor([[0.4, 0.3, 0.3], [0.4, 0.3, 0.3]])
    chunk = LabelChunk(["1", "2"], ["b", "b"], belief, trusted=torch.tensor([True, False]))
    assert chunk.verdicts(("a", "b", "c")).tolist() == [KEEP, REVIEW]
    assert [part.trusted.tolist() for part in chunk.split(1)] == [[True], [False]]


def test_decisions_are_a_column_and_decide_the_verdict(tmp_path):
    belief = torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5], [0.5, 0.5]])
    words = ["accepted", "kept", "dropped", ""]
    chunk = LabelChunk(list("1234"), ["a"] * 4, belief, decisions=words)
    write_labels(tmp_path / "labels.csv", [chunk], ("a", "b"))
    with (tmp_path / "labels.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["decision"] for row in rows] == words
    assert [row["verdict"] for row in rows] == ["relabel", "keep", "drop", "review"]
    assert [list(part.decisions) for part in chunk.split(3)] == [words[:3], words[3:]]


def test_formulas_are_quoted_on_request_alone(tmp_path):
    hostile = [LabelChunk(["=cmd|' /C calc'!A0", "plain"], ["@a", "b"], torch.eye(2))]
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
