"""``pencil report`` as people and programs meet it."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from pencil.cli.report import report as command

MANUAL = Path(__file__).parents[2] / "docs" / "report.md"
pytestmark = pytest.mark.slow


def test_the_page_goes_into_the_run(main_program, finished):
    code, out, err = main_program("report", finished)
    assert (code, out) == (0, "")
    assert err.startswith(f"{finished / 'report.html'}: ")
    assert err.endswith(" kB\n")
    assert "<!doctype html>" in (finished / "report.html").read_text(encoding="utf-8")


DEEP = "[" * 200_000


def test_hostile_texts_are_one_line(main_program, finished, tmp_path):
    (tmp_path / "deep.jsonl").write_text(DEEP)
    code, _, told = main_program("report", finished, "--texts", tmp_path / "deep.jsonl")
    assert (code, told.count("\n")) == (2, 1)
    assert "deep.jsonl: is not valid JSON" in told


def test_hostile_metadata_of_an_arrow_file_is_one_line(main_program, tmp_path):
    arrow = pytest.importorskip("pyarrow")
    table = arrow.table({"text": ["a", "b"], "label": [0, 1]}).replace_schema_metadata({"huggingface": DEEP})
    with (
        arrow.OSFile(str(tmp_path / "deep.arrow"), "wb") as file,
        arrow.ipc.new_file(file, table.schema) as out,
    ):
        out.write_table(table)
    code, _, told = main_program("train", tmp_path / "deep.arrow", "--out", tmp_path / "run")
    assert (code, told.count("\n")) == (2, 1)
    assert "deep.arrow" in told


def test_everything_at_once_as_json(main_program, finished, tmp_path):
    pytest.importorskip("matplotlib")
    words = ("--out", tmp_path / "a.html", "--markdown", tmp_path / "a.md", "--figures", tmp_path / "charts")
    code, out, err = main_program("report", finished, *words, "--examples", 3, "--json")
    told = json.loads(out)
    assert (code, err) == (0, "")
    assert told["out"] == str(tmp_path / "a.html")
    assert told["bytes"] == (tmp_path / "a.html").stat().st_size
    assert told["markdown"] == str(tmp_path / "a.md")
    assert set(told["figures"]) == {str(file) for file in (tmp_path / "charts").iterdir()}
    assert told["examples"] == told["keep"] + told["relabel"] + told["review"] == 90
    assert told["wrong"]["low"] <= told["wrong"]["value"] <= told["wrong"]["high"]
    assert told["notes"] == []


def test_the_truth_is_told_where_it_is_known_unless_the_data_is_left_alone(main_program, finished, tmp_path):
    assert main_program("report", finished, "--out", tmp_path / "a.html")[0] == 0
    assert main_program("report", finished, "--out", tmp_path / "b.html", "--no-data")[0] == 0
    known = "The true labels of this data are known"
    assert known in (tmp_path / "a.html").read_text(encoding="utf-8")
    assert known not in (tmp_path / "b.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--out", "page.pdf"), "--out page.pdf: the ending must be .html or .htm"),
        (("--markdown", "notes.txt"), "--markdown notes.txt: the ending must be .md or .markdown"),
        (("--examples", "0"), "0 is not in the range 1<=x<=100"),
        (
            ("--no-data", "--images", "photos"),
            "--no-data and --images cannot be combined: images are matched to the rows of the data",
        ),
        (
            ("--no-data", "--texts", "a.txt"),
            "--no-data and --texts cannot be combined: texts are matched to the rows of the data",
        ),
    ],
)
def test_mistakes_are_told_in_one_line(main_program, finished, words, message):
    code, _, err = main_program("report", finished, *words)
    assert code == 2
    assert message in err
    assert "Traceback" not in err


def test_runs_that_cannot_be_told_are_refused(main_program, finished, tmp_path):
    code, _, err = main_program("report", tmp_path)
    assert (code, "is not a run" in err) == (2, True)
    unfinished = tmp_path / "run"
    unfinished.mkdir()
    (unfinished / "config.toml").write_text((finished / "config.toml").read_text())
    code, _, err = main_program("report", unfinished, "--json")
    assert (code, "is not finished; continue it with: pencil resume" in err) == (2, True)
    assert not (unfinished / "report.html").exists()


def test_the_manual_names_every_option():
    text = MANUAL.read_text(encoding="utf-8")
    table = text[text.index("| option | effect |") : text.index("## How to read it")]
    options = [name for option in command.params for name in option.opts if name.startswith("--")]
    assert [name for name in options if f"`{name}" not in table] == []


def test_data_that_moved_is_left_out_and_data_that_changed_is_refused(
    main_program, points, finished, tmp_path
):
    run, data = shutil.copytree(finished, tmp_path / "run"), tmp_path / "data.npz"
    config = (run / "config.toml").read_text(encoding="utf-8")
    (run / "config.toml").write_text(config.replace(str(points), str(data)), encoding="utf-8")
    code, out, _ = main_program("report", run, "--json")
    assert (code, "the run's data cannot be read" in json.loads(out)["notes"][0]) == (0, True)
    (run / "report.html").unlink()
    with np.load(points) as arrays:
        np.savez(data, **{**arrays, "X": arrays["X"] + 1})
    code, _, err = main_program("report", run)
    assert code == 2
    assert "is not what the run was trained on: train: contents" in err
    assert err.endswith("continue with the changed data: --changed-data\n")
    assert not (run / "report.html").exists()
    assert main_program("report", run, "--changed-data")[0] == 0
    assert main_program("report", run, "--no-data")[0] == 0


def test_methods_without_labels_are_told_too(main_program, points, tmp_path):
    run, words = tmp_path / "run", ("--method", "cross_entropy")
    assert main_program("train", points, "--out", run, "--epochs", "1,2,1", "--quiet", *words)[0] == 0
    code, out, _ = main_program("report", run, "--json", "--markdown", tmp_path / "a.md")
    assert code == 0
    assert json.loads(out)["examples"] == 90
    assert "An estimated " in (run / "report.html").read_text(encoding="utf-8")
