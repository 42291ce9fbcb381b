"""``pencil audit`` as people and programs meet it: write the sample, fill it in, certify, verify."""

import json

import pytest

from pencil.errors import ConfigError, DataError, RunError
from support import audits


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return audits.trained_run(tmp_path_factory.mktemp("audit"))


@pytest.fixture
def run(trained, tmp_path):
    return audits.copied(trained, tmp_path / "run")


@pytest.fixture
def right(trained):
    """The answer to a line of the sheet."""
    import numpy as np

    truth = np.load(trained.parent / "truth.npy")
    return lambda line: audits.NAMES[truth[int(line["id"])]]


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
    for needs_one in (("--out", certificate), ("--answers", tmp_path / "s.csv"), ("--recalibrate",)):
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
    with pytest.raises(ConfigError, match="--recalibrate: requires a sample of all labels"):
        raise pencil("audit", run, "--recalibrate").exception
    with pytest.raises(ConfigError, match="--confidence"):
        raise pencil("audit", run, "--confidence", "100%").exception
    certificate.write_text("{}")
    code, out, err = main_program("audit", "--verify", certificate, "--json")
    assert code == 2
    assert "rejected" in json.loads(out)["error"]
    assert len(err.strip().splitlines()) == 1


def test_an_audit_that_contradicts_the_probabilities_corrects_them(pencil, run, tmp_path):
    """An auditor who finds most given labels right, although the run doubts a third of them."""
    table = tmp_path / "labels.csv"
    pencil("labels", run, "--out", table)
    before = table.read_text()
    given = {line.split(",")[0]: line.split(",")[1] for line in before.splitlines()}
    sheet, filled = tmp_path / "s.csv", tmp_path / "f.csv"
    pencil("audit", run, "--what", "all", "--csv", sheet, "--seed", 3)
    audits.fill_in(sheet, filled, lambda line: given[line["id"]])
    done = json.loads(pencil("audit", run, "--answers", filled, "--recalibrate", "--json").stdout)
    assert done["findings"]["all"]["noise_rate"]["high"] < 0.1
    assert done["recalibration"]["wrong"]["shift"] < 0
    assert json.loads((run / "audit.json").read_text())["checked"] == 100
    pencil("labels", run, "--out", table)
    after = table.read_text()
    assert after.count("relabel") < before.count("relabel")
    stale = pencil("audit", run)
    with pytest.raises(RunError, match="its answers certify nothing"):
        raise stale.exception
    (run / "audit.json").write_text(
        '{"recalibration": {"wrong": {"shift": 1e999, "slope": 1}, "other": null}}'
    )
    with pytest.raises(RunError, match="remove it to use the uncorrected probabilities"):
        raise pencil("labels", run, "--out", table).exception


def test_probabilities_that_hold_stay(pencil, run, right, tmp_path):
    sheet, filled = tmp_path / "s.csv", tmp_path / "f.csv"
    pencil("audit", run, "--what", "all", "--csv", sheet, "--seed", 3)
    audits.fill_in(sheet, filled, right)
    made = pencil("audit", run, "--answers", filled, "--recalibrate")
    assert "do not contradict" in made.stderr
    assert not (run / "audit.json").exists()
