"""Files of columns on the command line: what they hold is recognised, trained and predicted."""

import csv
import io

import pytest

from pencil.configure import train_config

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


@pytest.fixture
def people(tmp_path):
    """Sixty people of two classes that differ in age and town; a note on each, and gaps."""
    path = tmp_path / "people.csv"
    lines = ["Age,height,weight,town,note,Class"]
    for row in range(60):
        old = row % 2
        age = "" if row % 10 == 3 else str(25 + 40 * old + row % 7)
        town = ("Lima", "Oslo")[old]
        label = "young" if row == 1 else ("young", "old")[old]
        lines.append(f"{age},{160 + row % 9},{60 + row % 5},{town},this is the person number {row},{label}")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_table_is_trained_resumed_and_predicted(main_program, people, tmp_path):
    run, new = tmp_path / "run", tmp_path / "new.csv"
    code, _, told = main_program("train", people, "--out", run, "--epochs", "2,20,5")
    assert code == 0, told
    assert "3 numbers standardised; 1 categories as 0 and 1; missing values in Age" in told
    assert "not used: note (text)" in told
    new.write_text("town,Age,height,weight\nOslo,70,165,62\nLima,,161,61\n")
    code, _, told = main_program("predict", run, new, "--out", tmp_path / "out.csv")
    assert code == 0, told
    assert [line["suggested_label"] for line in _table(tmp_path / "out.csv")] == ["old", "young"]
    assert main_program("predict", run, people, "--out", tmp_path / "all.csv")[0] == 0
    assert {line["given_label"] for line in _table(tmp_path / "all.csv")} == {"old", "young"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("town,height,weight\nOslo,165,62\n", "new.csv: no column 'Age', which the model needs; found town"),
        ("town,Age,height,weight\nOslo,x,1,2\n", "row 1, column 'Age': 'x' is not a number"),
    ],
)
def test_new_rows_that_do_not_fit(main_program, people, tmp_path, text, message):
    assert main_program("train", people, "--out", tmp_path / "run", *QUICK)[0] == 0
    (tmp_path / "new.csv").write_text(text)
    code, _, told = main_program(
        "predict", tmp_path / "run", tmp_path / "new.csv", "--out", tmp_path / "o.csv"
    )
    assert code == 2
    assert message in told
    assert "Traceback" not in told


def test_the_kind_can_be_forced(pencil, people, tmp_path, monkeypatch):
    monkeypatch.setenv("PENCIL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PENCIL_EMBED", "none")
    words = ("--set", "data.kind=text", "--out", tmp_path / "run", *QUICK)
    assert pencil("train", people, *words).exit_code == 0
    settings = (tmp_path / "run" / "config.toml").read_text()
    assert 'kind = "text"' in settings
    assert 'embed = "ngrams"' in settings


def _table(path):
    return list(csv.DictReader(io.StringIO(path.read_text())))


@pytest.mark.parametrize(("role", "kind"), [("text", "text"), ("path", "manifest"), ("features", "features")])
def test_a_column_with_an_unusual_name_chooses_what_a_file_holds(tmp_path, role, kind):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"a": "x", "b": 1, "c": 2, "d": 3, "label": "cat"}\n' * 3)
    assert train_config(str(path), None, None).data.kind == "table"
    data = train_config(str(path), None, None, settings=(f"data.columns.{role}=a",)).data
    assert (data.kind, data.columns) == (kind, {role: "a"})


def test_texts_in_a_column_with_an_unusual_name_are_trained(pencil, tmp_path, monkeypatch):
    monkeypatch.setenv("PENCIL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PENCIL_EMBED", "none")
    lines = [f"{text.split()[0]},1,2,3,{name}" for text, name in rows()]
    (tmp_path / "words.csv").write_text("\n".join(["words,a,b,c,label", *lines]))
    chosen = ("--set", "data.columns.text=words", "--out", tmp_path / "run", *QUICK)
    trained = pencil("train", tmp_path / "words.csv", *chosen)
    assert trained.exit_code == 0, trained.output
