"""``pencil export`` and ``pencil trusted`` as people and programs meet them."""

import csv
import json

import pytest

from pencil.errors import ConfigError


@pytest.fixture(scope="module")
def run(pencil, points, tmp_path_factory):
    out = tmp_path_factory.mktemp("handed") / "run"
    made = pencil("train", points, "--epochs", "1,6,1", "--quiet", "--noise", "symmetric:0.3", "--out", out)
    assert made.exit_code == 0
    return out


def test_labels_go_to_label_studio_and_come_back(pencil, run, tmp_path):
    tasks = tmp_path / "tasks.json"
    made = pencil("export", run, "--to", "label-studio", "--out", tasks, "--prefix", "http://host/", "--json")
    result = json.loads(made.stdout)
    assert result["rows"] == 90
    assert result["files"] == [str(tasks), str(tmp_path / "tasks.xml")]
    found = json.loads(tasks.read_text())
    for number, task in enumerate(found):  # what people would do: take the prediction, but for the first
        results = [] if number == 0 else task["predictions"][0]["result"]
        task["annotations"] = [{"result": results, "was_cancelled": False}]
    (tmp_path / "export.json").write_text(json.dumps(found))
    back = pencil("trusted", tmp_path / "export.json", "--out", tmp_path / "trusted.csv", "--json")
    assert json.loads(back.stdout)["rows"] == 89
    assert json.loads(back.stdout)["open"] == 1
    with (tmp_path / "trusted.csv").open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert [line["id"] for line in lines] == [f"row\n{number}" for number in range(1, 90)]
    chosen = [task["predictions"][0]["result"][0]["value"]["choices"][0] for task in found[1:]]
    assert [line["label"] for line in lines] == chosen


def test_people_are_told_files_rows_and_disputes(pencil, run, tmp_path):
    made = pencil("export", run, "--to", "cleanlab", "--out", tmp_path / "x.npz")
    assert made.stderr.strip() == f"{tmp_path / 'x.npz'}: 90 rows"
    pencil("export", run, "--to", "label-studio", "--out", tmp_path / "t.json")
    task = json.loads((tmp_path / "t.json").read_text())[0]
    both = [
        {"result": [{**task["predictions"][0]["result"][0], "value": {"choices": [name]}}]} for name in "ab"
    ]
    (tmp_path / "e.json").write_text(json.dumps([{**task, "annotations": both}]))
    back = pencil("trusted", tmp_path / "e.json", "--out", tmp_path / "trusted.csv")
    assert "0 labels; 1 disputed, 0 without a choice" in back.stderr
    assert "disputed: row\n0: a, b" in back.stderr


def test_mistakes_stay_mistakes(pencil, run, points, tmp_path):
    made = pencil("export", run, "--to", "cleanlab", "--out", tmp_path / "x.npz", "--verdict", "keep")
    assert isinstance(made.exception, ConfigError)
    assert pencil("export", run, "--to", "excel", "--out", tmp_path / "x").exit_code == 2
    assert "label-studio" in pencil("export", "--help").stdout
