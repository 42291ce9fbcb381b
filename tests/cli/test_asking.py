"""``pencil review --ask`` as people and programs meet it: ask, fill in, and see what the answers release."""

import csv
import json

import pytest

from pencil.errors import ConfigError, RunError
from pencil.run import RunDirectory
from support import audits


def asked(pencil, run, number, sheet):
    made = pencil("review", run, "--ask", number, "--csv", sheet, "--json")
    assert made.exit_code == 0, made.output
    with sheet.open(newline="", encoding="utf-8") as file:
        return [line["id"] for line in csv.DictReader(file)]


def test_questions_are_filled_in_and_their_answers_count_everywhere(pencil, run, right, tmp_path):
    sheet, filled, table = (tmp_path / name for name in ("s.csv", "f.csv", "labels.csv"))
    rows = asked(pencil, run, 40, sheet)
    assert len(rows) == 44  # four of them again, without a word
    assert len(set(rows)) == 40
    audits.fill_in(sheet, filled, right)
    told = json.loads(pencil("review", run, "--answers", filled, "--reviewer", "ann", "--json").stdout)
    assert (told["asked"], told["answered"]) == (44, 44)
    assert told["right"] > 20
    pencil("labels", run, "--out", table)
    with table.open(newline="", encoding="utf-8") as file:
        found = {row["id"]: row for row in csv.DictReader(file)}
    assert {name for name, row in found.items() if row["decision"]} == set(rows)
    assert sum(row["verdict"] == "relabel" for row in found.values()) == told["relabel"]
    again = asked(pencil, run, 20, tmp_path / "again.csv")
    assert not set(again) & set(rows)


def test_unanswered_questions_are_asked_again_and_say_what_to_do(pencil, run, tmp_path):
    sheet = tmp_path / "s.csv"
    rows = asked(pencil, run, 12, sheet)
    assert asked(pencil, run, 30, sheet) == rows
    said = pencil("review", run, "--ask", 12, "--csv", sheet)
    assert f"next: fill in {sheet}, then: pencil review {run} --answers {sheet}" in said.stdout


def test_answers_before_questions_are_a_mistake(pencil, run, tmp_path):
    with pytest.raises(ConfigError, match="nothing was asked yet"):
        raise pencil("review", run, "--answers", tmp_path / "f.csv").exception
    with pytest.raises(ConfigError, match="--csv: only with --ask"):
        raise pencil("review", run, "--csv", tmp_path / "f.csv").exception
    with pytest.raises(ConfigError, match="--ask and --goal and --lease-minutes: --ask chooses"):
        raise pencil("review", run, "--ask", 10, "--goal", "relabel", "--lease-minutes", 5).exception


def test_a_sheet_of_another_run_is_refused(pencil, run, trained, right, tmp_path):
    asked(pencil, run, 12, tmp_path / "s.csv")
    other = audits.copied(trained, tmp_path / "other")
    asked(pencil, other, 12, tmp_path / "other.csv")
    audits.fill_in(tmp_path / "other.csv", tmp_path / "f.csv", right)
    with pytest.raises(Exception, match="belongs to another audit or run"):
        raise pencil("review", run, "--answers", tmp_path / "f.csv").exception


def test_asking_leaves_an_audit_as_it_is(pencil, run, right, tmp_path):
    sheet, filled = tmp_path / "a.csv", tmp_path / "fa.csv"
    pencil("audit", run, "--looks", 30, "--csv", sheet, "--seed", 3)
    audits.fill_in(sheet, filled, right)
    asked(pencil, run, 40, tmp_path / "s.csv")
    audits.fill_in(tmp_path / "s.csv", tmp_path / "f.csv", right)
    pencil("review", run, "--answers", tmp_path / "f.csv")
    done = pencil("audit", run, "--answers", filled, "--out", tmp_path / "c.json", "--json")
    assert json.loads(done.stdout)["findings"]["answered"] == 33
    assert pencil("audit", run, "--verify", tmp_path / "c.json").exit_code == 0


def test_where_nothing_is_doubtful_it_says_what_to_do_instead(pencil, run, monkeypatch):
    monkeypatch.setattr("pencil.run.LabelTable.ask", lambda self, number: [])
    with pytest.raises(RunError, match="no label is doubtful enough to ask about; check a random sample"):
        raise pencil("review", run, "--ask", 10, "--csv", "s.csv").exception
    assert not (RunDirectory.open(run).path / "asked.jsonl").exists()
