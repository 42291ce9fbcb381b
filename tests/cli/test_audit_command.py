"""``pencil audit`` as people and programs meet it: write the sample, fill it in, certify, verify."""

import csv
import json

import pytest

from pencil.errors import ConfigError, DataError, RunError
from support import audits


def test_a_sample_is_filled_in_and_certified(pencil, run, right, tmp_path):
    begun = pencil("audit", run)
    assert "checks without an error certify that at most 5 % of them are wrong" in begun.stdout
    assert not (run / "audit.jsonl").exists()
    sheet, filled, certificate = (tmp_path / name for name in ("s.csv", "f.csv", "c.json"))
    made = pencil("audit", run, "--csv", sheet, "--looks", 30, "--seed", 3, "--json")
    assert made.exit_code == 0, made.output
    assert json.loads(made.stdout)["findings"]["answered"] == 0
    head = sheet.read_text().splitlines()
    assert head[0] == "look,audit,id,a,b,c,answer"
    assert "'=cow" in sheet.read_text()
    audits.fill_in(sheet, filled, right)
    done = json.loads(
        pencil("audit", run, "--answers", filled, "--out", certificate, "--auditor", "ann", "--json").stdout
    )
    assert done["findings"]["answered"] == 33
    assert done["statements"][0].startswith(f"of {done['sizes']['relabel']} changed labels at most")
    assert json.loads(certificate.read_text())["answers"][0]["auditor"] == "ann"
    verified = pencil("audit", run, "--verify", certificate)
    assert done["statements"][0] in verified.stdout
    assert "verified" in verified.stderr
    assert json.loads(pencil("audit", "--verify", certificate, "--json").stdout)["verified"] is True
    assert pencil("report", run, "--markdown", tmp_path / "r.md").exit_code == 0
    bound = done["statements"][0]
    assert f"An audit found: {bound[0].upper()}{bound[1:]}." in (tmp_path / "r.md").read_text()


def test_without_changed_labels_it_proposes_a_sample_of_all(pencil, run):
    told = pencil("audit", run, "--max-false-relabels", "0%")
    assert (
        told.stdout
        == f"no label has the verdict relabel; check a sample of all: pencil audit {run} --what all --page\n"
    )


def test_a_report_states_no_bound_before_there_are_answers(pencil, run, tmp_path):
    pencil("audit", run, "--csv", tmp_path / "s.csv", "--looks", 12, "--seed", 3)
    assert pencil("report", run, "--markdown", tmp_path / "r.md").exit_code == 0
    assert "An audit found" not in (tmp_path / "r.md").read_text()


def test_letters_and_question_marks_are_answers(pencil, run, tmp_path):
    sheet, filled = tmp_path / "s.csv", tmp_path / "f.csv"
    pencil("audit", run, "--csv", sheet, "--looks", 12, "--seed", 3, "--bound", "live")
    lines = iter(["A", "?", "dog", "'=cow", "=cow"])
    audits.fill_in(sheet, filled, lambda _: next(lines, None))
    result = json.loads(
        pencil("audit", run, "--answers", filled, "--csv", tmp_path / "again.csv", "--json").stdout
    )
    assert result["findings"]["answered"] == 5
    assert result["findings"]["cannot_tell"] == 1
    written = [line.rsplit(",", 1)[1] for line in (tmp_path / "again.csv").read_text().splitlines()]
    first = sheet.read_text().splitlines()[1].split(",")[3]
    assert written[1:7] == [first, "?", "dog", "'=cow", "'=cow", ""]
    again = pencil("audit", run, "--answers", tmp_path / "again.csv", "--json")
    assert json.loads(again.stdout)["findings"] == result["findings"]


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (["dgo"], "line 2: the answer 'dgo' is no class; did you mean 'dog'\\?"),
        (["dog", None, "dog"], "line 3: has no answer, but line 4 has one; answer it, or write \\?"),
    ],
)
def test_mistakes_in_the_sheet_name_the_line(pencil, run, tmp_path, answers, message):
    sheet, filled = tmp_path / "s.csv", tmp_path / "f.csv"
    pencil("audit", run, "--csv", sheet, "--looks", 12, "--seed", 3)
    given = iter(answers)
    audits.fill_in(sheet, filled, lambda _: next(given, None))
    made = pencil("audit", run, "--answers", filled)
    with pytest.raises(DataError, match=message):
        raise made.exception


def test_an_old_sheet_is_refused_and_nothing_recorded(pencil, run, tmp_path):
    sheet, filled = tmp_path / "s.csv", tmp_path / "f.csv"
    pencil("audit", run, "--csv", sheet, "--looks", 12, "--seed", 3)
    audits.fill_in(sheet, filled, lambda _: "dog")
    pencil("audit", run, "--new", "--csv", sheet, "--looks", 12, "--seed", 3)  # even the same labels
    with pytest.raises(DataError, match="another audit"):
        raise pencil("audit", run, "--answers", filled).exception
    assert json.loads(pencil("audit", run, "--json").stdout)["findings"]["answered"] == 0


def test_mistakes_have_remedies(pencil, run, tmp_path, main_program):
    certificate = tmp_path / "c.json"
    assert isinstance(pencil("audit").exception, ConfigError)
    for needs_one in (("--out", certificate), ("--answers", tmp_path / "s.csv")):
        with pytest.raises(ConfigError, match="there is no audit to continue; begin one with --page"):
            raise pencil("audit", run, *needs_one).exception
    for impossible in (("--max-error", "100%"), ("--confidence", "0.99999999999999")):
        with pytest.raises(ConfigError, match=impossible[0]):
            raise pencil("audit", run, *impossible).exception
    pencil("audit", run, "--csv", tmp_path / "s.csv", "--looks", 10, "--seed", 3)
    early = pencil("audit", run, "--out", certificate)
    with pytest.raises(ConfigError, match="nothing to certify yet"):
        raise early.exception
    with pytest.raises(ConfigError, match="--what: the audit was begun with relabels"):
        raise pencil("audit", run, "--what", "all").exception
    with pytest.raises(RunError, match="begin another audit with --new"):
        raise pencil("audit", run, "--max-false-relabels", "1%").exception
    with pytest.raises(ConfigError, match="--confidence"):
        raise pencil("audit", run, "--confidence", "100%").exception
    certificate.write_text("{}")
    code, out, err = main_program("audit", "--verify", certificate, "--json")
    assert code == 2
    assert "rejected" in json.loads(out)["error"]
    assert len(err.strip().splitlines()) == 1


def labels_of(pencil, run, tmp_path):
    pencil("labels", run, "--out", tmp_path / "labels.csv")
    with (tmp_path / "labels.csv").open(newline="", encoding="utf-8") as file:
        return {row["id"]: row for row in csv.DictReader(file)}


def test_the_answers_of_an_audit_count_as_decisions(pencil, run, tmp_path):
    """An auditor who finds all given labels right, although the run doubts a third of them."""
    before = labels_of(pencil, run, tmp_path)
    sheet, filled = tmp_path / "s.csv", tmp_path / "f.csv"
    pencil("audit", run, "--looks", 200, "--csv", sheet, "--seed", 3)
    audits.fill_in(sheet, filled, lambda line: before[line["id"].removeprefix("'")]["given_label"])
    done = json.loads(pencil("audit", run, "--answers", filled, "--json").stdout)
    after = labels_of(pencil, run, tmp_path)
    with filled.open(newline="", encoding="utf-8") as file:
        asked = {line["id"] for line in csv.DictReader(file)}
    assert {after[name]["decision"] for name in asked} == {"kept"}
    assert not any(row["verdict"] == "relabel" for row in after.values())
    again = json.loads(pencil("audit", run, "--json").stdout)
    assert again["statements"] == done["statements"]  # about the labels as they were when it began
    assert again["sizes"]["relabel"] == sum(row["verdict"] == "relabel" for row in before.values())
    told = pencil("audit", run, "--new")
    assert "no label has the verdict relabel" in told.stdout
