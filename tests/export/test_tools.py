"""A run handed over by the tool's name."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from pencil.errors import ConfigError, DataError, RunError
from pencil.export.tools import TOOLS, ExportOptions, export, write_json_list
from pencil.identity import run_id
from pencil.presets import preset
from pencil.run import RunDirectory, train
from pencil.run.provenance import SUFFIX

pytestmark = pytest.mark.slow

ENDINGS = {"label-studio": "x.json", "fiftyone": "x", "datasets": "x.parquet", "cleanlab": "x.npz"}


@pytest.mark.parametrize("tool", sorted(TOOLS))
def test_every_tool_gets_every_row_and_nothing_is_left_besides(run, rows, tmp_path, tool):
    if tool == "datasets":
        pytest.importorskip("pyarrow")
    written = export(run, tool, tmp_path / "new" / ENDINGS[tool], ExportOptions())
    assert written.rows == len(rows)
    source = written.files[0].with_name(written.files[0].name + SUFFIX)
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == {*written.files, source}
    assert json.loads(source.read_text())["run"] == run_id(run.path)


def test_tasks_and_their_interface_lie_side_by_side(run, rows, tmp_path):
    options = ExportOptions(verdicts=("review", "relabel"), prefix="http://host/")
    written = export(run, "label-studio", tmp_path / "tasks.json", options)
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    wanted = [row for row in rows if row.verdict != "keep"]
    assert written.rows == len(tasks) == len(wanted) > 0
    assert [task["data"]["image"] for task in tasks] == [f"http://host/{row.id}" for row in wanted]
    assert written.files[1] == tmp_path / "tasks.xml"
    assert '<Choice value="żubr"/>' in (tmp_path / "tasks.xml").read_text(encoding="utf-8")


def test_texts_come_from_a_table(run, rows, tmp_path):
    lines = [f'{row.id},"text, of {row.id}"' for row in rows]
    (tmp_path / "texts.csv").write_text("\n".join(["id,text", *lines]), encoding="utf-8")
    export(run, "label-studio", tmp_path / "tasks.json", ExportOptions(texts=tmp_path / "texts.csv"))
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    assert [task["data"]["text"] for task in tasks] == [f"text, of {row.id}" for row in rows]
    assert '<Text name="text"' in (tmp_path / "tasks.xml").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def of_texts(tmp_path_factory):
    """A run on texts, which have no ids of their own."""
    folder = tmp_path_factory.mktemp("texts")
    lines = [f"{'good' if row % 2 else 'bad'} film {row},{row % 2}" for row in range(20)]
    (folder / "texts.csv").write_text("\n".join(["text,label", *lines]))
    return train(preset("text", str(folder / "texts.csv")), folder / "run")


def test_a_run_on_texts_shows_them(of_texts, tmp_path):
    export(of_texts, "label-studio", tmp_path / "tasks.json", ExportOptions())
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    assert [task["data"]["text"] for task in tasks[:2]] == ["bad film 0", "good film 1"]
    assert '<Text name="text"' in (tmp_path / "tasks.xml").read_text(encoding="utf-8")
    with pytest.raises(ConfigError, match=r"--to fiftyone: it shows images, but the rows of .* are texts"):
        export(of_texts, "fiftyone", tmp_path / "x", ExportOptions())
    export(of_texts, "label-studio", tmp_path / "images.json", ExportOptions(prefix="scans/"))
    assert json.loads((tmp_path / "images.json").read_text())[1]["data"]["image"] == "scans/1"


def test_texts_that_are_gone_must_be_given(of_texts, tmp_path):
    folder = shutil.copytree(of_texts.path, tmp_path / "run")
    config = (folder / "config.toml").read_text()
    (folder / "config.toml").write_text(config.replace("texts.csv", "gone.csv"))
    with pytest.raises(DataError, match=r"--texts: missing, and the texts of .* cannot be read \(data.path"):
        export(RunDirectory(folder), "label-studio", tmp_path / "tasks.json", ExportOptions())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("id,body\na,b\n", "columns id and text"),
        ("id,text\na,b\n", "no text for the id 'images/ż 0.png'; add it"),
    ],
    ids=["columns", "row"],
)
def test_texts_that_do_not_fit_are_refused(run, tmp_path, content, words):
    (tmp_path / "texts.csv").write_text(content)
    with pytest.raises(DataError, match=words):
        export(run, "label-studio", tmp_path / "tasks.json", ExportOptions(texts=tmp_path / "texts.csv"))
    assert not (tmp_path / "tasks.json").exists()


def test_samples_are_named_by_the_prefix(run, rows, tmp_path):
    export(run, "fiftyone", tmp_path / "dataset", ExportOptions(prefix="/my/"))
    samples = json.loads((tmp_path / "dataset" / "samples.json").read_text())["samples"]
    assert [sample["filepath"] for sample in samples] == [f"/my/{row.id}" for row in rows]
    assert json.loads((tmp_path / "dataset" / "metadata.json").read_text())["info"]["classes"][-1] == "żubr"


def test_arrays_are_read_without_pickle(run, rows, tmp_path):
    export(run, "cleanlab", tmp_path / "x.npz", ExportOptions())
    with np.load(tmp_path / "x.npz", allow_pickle=False) as arrays:
        assert arrays["pred_probs"].shape == (len(rows), 4)
        assert arrays["ids"].tolist() == [row.id for row in rows]


@pytest.mark.parametrize(
    ("tool", "options", "words"),
    [
        (
            "cleanlab",
            ExportOptions(verdicts=("keep",)),
            "--verdict: not supported for cleanlab; leave it out",
        ),
        ("datasets", ExportOptions(prefix="a"), "--prefix: not supported for datasets"),
        ("label-studio", ExportOptions(distribution=True), "--distribution: not supported for label-studio"),
        (
            "label-studio",
            ExportOptions(prefix="http://host/", texts=Path("texts.csv")),
            "--prefix and --texts: .*; leave out the other",
        ),
    ],
    ids=["verdict", "prefix", "distribution", "prefix and texts"],
)
def test_an_unsupported_option_is_refused(run, tmp_path, tool, options, words):
    with pytest.raises(ConfigError, match=words):
        export(run, tool, tmp_path / ENDINGS[tool], options)


@pytest.mark.parametrize("tool", ["label-studio", "datasets", "cleanlab"])
def test_another_ending_is_refused(run, tmp_path, tool):
    with pytest.raises(ConfigError, match=r"--out .*x.txt: the ending must be"):
        export(run, tool, tmp_path / "x.txt", ExportOptions())


def test_the_data_itself_is_never_overwritten(run):
    data = Path(run.config.data.path)
    before = data.read_bytes()
    with pytest.raises(ConfigError, match="that is the data itself"):
        export(run, "cleanlab", data, ExportOptions())
    assert data.read_bytes() == before


def test_an_unfinished_run_is_refused(run, tmp_path):
    (tmp_path / "config.toml").write_text((run.path / "config.toml").read_text())
    with pytest.raises(RunError, match="is not finished"):
        export(RunDirectory(tmp_path), "cleanlab", tmp_path / "x.npz", ExportOptions())


@pytest.fixture
def reviewed(run, tmp_path):
    """A copy of the run in which one row was dropped and one given the class after the one suggested."""
    from pencil.review import Review
    from pencil.review.history import Who

    copy = tmp_path / "reviewed"
    shutil.copytree(run.path, copy)
    review, ann = Review(RunDirectory.open(copy), with_sure=True), Who("Ann", "window")
    first = review.take(ann.client)["items"][0]
    second = review.decide(ann, "t0", [(first["row"], first["version"])], action="drop")["items"][0]
    label = (second["likely"][0][0] + 1) % 4
    review.decide(ann, "t1", [(second["row"], second["version"])], action="choose", label=label)
    review.close()
    return RunDirectory.open(copy), first["id"], second["id"], label


def test_what_somebody_decided_is_handed_over(reviewed, tmp_path):
    directory, dropped, changed, label = reviewed
    export(directory, "label-studio", tmp_path / "tasks.json", ExportOptions())
    tasks = {task["data"]["pencil_id"]: task for task in json.loads((tmp_path / "tasks.json").read_text())}
    assert tasks[dropped]["data"]["verdict"] == "drop"
    (guess,) = tasks[changed]["predictions"]
    assert guess["score"] == 1.0
    assert guess["result"][0]["value"]["choices"] == [["ant", "bee", "cow", "żubr"][label]]
    export(directory, "cleanlab", tmp_path / "arrays.npz", ExportOptions())
    with np.load(tmp_path / "arrays.npz") as arrays:
        row = list(arrays["ids"]).index(changed)
        assert arrays["pred_probs"][row].argmax() == label


def test_a_dropped_row_is_told_in_parquet(reviewed, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    directory, dropped, _, _ = reviewed
    export(directory, "datasets", tmp_path / "labels.parquet", ExportOptions())
    verdicts = {
        row["id"]: row["verdict"] for row in parquet.read_table(tmp_path / "labels.parquet").to_pylist()
    }
    assert verdicts[dropped] == 3
    assert 3 not in {verdict for name, verdict in verdicts.items() if name != dropped}


@pytest.mark.parametrize("items", [[], [1], [{"a": "ż\udcff"}, [2]]], ids=["none", "one", "two"])
def test_a_list_is_written_item_by_item(tmp_path, items):
    assert write_json_list(tmp_path / "list.json", iter(items), '{"all": [', "]}") == len(items)
    assert json.loads((tmp_path / "list.json").read_text()) == {"all": items}
