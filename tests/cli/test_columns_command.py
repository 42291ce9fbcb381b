"""Files of columns on the command line: what they hold is recognised, trained and predicted."""

import csv
import io

import pytest

WORDS = {
    "NUM": ("how many miles", "how much money", "what year was"),
    "HUM": ("who wrote that", "who was queen", "which man won"),
    "LOC": ("where is the city", "what country has", "which river flows"),
}
REST = ("before the war", "in the old book", "of the long song", "near the sea", "on the moon")
QUICK = ("--epochs", "1,6,1", "--quiet")


def rows():
    """Forty-five questions, every ninth with a wrong class."""
    found = [
        (f"{start} {rest}?", name) for name, starts in WORDS.items() for start in starts for rest in REST
    ]
    wrong = {"NUM": "HUM", "HUM": "LOC", "LOC": "NUM"}
    return [(text, wrong[name] if row % 9 == 0 else name) for row, (text, name) in enumerate(found)]


@pytest.fixture
def questions(tmp_path, monkeypatch):
    monkeypatch.setenv("PENCIL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PENCIL_EMBED", "none")
    path = tmp_path / "questions.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=";").writerows([("Question", "Class"), *rows()])
    return path


def test_texts_are_trained_reported_and_predicted(pencil, questions, tmp_path):
    run = tmp_path / "run"
    trained = pencil("train", questions, "--out", run, "--epochs", "2,20,5", "--quiet")
    assert trained.exit_code == 0, trained.output
    assert pencil("resume", run).exit_code == 0
    page = tmp_path / "report.html"
    assert pencil("report", run, "--out", page).exit_code == 0
    assert any(text in page.read_text(encoding="utf-8") for text, _ in rows())
    new = tmp_path / "new.csv"
    new.write_text("question\nWho wrote the song?\nWhere is the sea?\n")
    found = pencil("predict", run, new, "--out", tmp_path / "out.csv")
    assert found.exit_code == 0, found.output
    table = list(csv.DictReader(io.StringIO((tmp_path / "out.csv").read_text())))
    assert [line["suggested_label"] for line in table] == ["HUM", "LOC"]


def test_a_missing_column_is_one_line(main_program, questions, tmp_path):
    assert main_program("train", questions, "--out", tmp_path / "run", *QUICK)[0] == 0
    (tmp_path / "new.csv").write_text("size\n3\n")
    code, _, told = main_program(
        "predict", tmp_path / "run", tmp_path / "new.csv", "--out", tmp_path / "o.csv"
    )
    assert code == 2
    assert "none of texts; name it: --set data.columns.text=NAME" in told
    assert "Traceback" not in told
