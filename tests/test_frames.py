"""Data frames and data sets go into ``pencil.train`` as they are."""

import numpy as np
import pytest

import pencil
from pencil.configure import continued, train_config
from pencil.data import Text, shown
from pencil.errors import ConfigError, DataError, RunError
from pencil.frames import _pairs, rows_of, write_rows
from pencil.methods import CrossEntropy
from pencil.places import allowing
from pencil.presets import preset
from pencil.run import RunDirectory, evaluate, resume, rows_to_show

QUICK = {
    f"phases.{name}.epochs": count for name, count in (("backbone", 1), ("correction", 6), ("finetune", 1))
}
TEXTS = [f"{start} number {row}" for row in range(12) for start in ("who was", "where is")]
KINDS = ["person", "place"] * 12


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PENCIL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PENCIL_EMBED", "none")


def test_a_pandas_frame_of_texts(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"words": TEXTS, "kind": KINDS, "length": [len(text) for text in TEXTS]})
    run = pencil.train(frame, tmp_path / "run", text="words", label="kind", settings={"seed": 3, **QUICK})
    assert (run.config.data.kind, run.config.data.embed, run.config.seed) == ("text", "ngrams", 3)
    assert shown(rows_to_show(RunDirectory(run.path)).train.inputs, 1) == Text("where is number 0")
    assert pencil.open_run(run.path).class_names == ("person", "place")


def test_a_pandas_frame_of_numbers_and_categories(tmp_path):
    pandas = pytest.importorskip("pandas")
    number = np.where(np.arange(24) == 5, np.nan, np.arange(24) % 2 + 0.1 * (np.arange(24) % 5))
    town = pandas.Categorical(["Oslo", "Lima"] * 12)
    when = pandas.to_datetime(["2020-01-01", None] * 12)
    frame = pandas.DataFrame({"number": number, "town": town, "when": when, "target": KINDS})
    run = pencil.train(frame, tmp_path / "run", settings=QUICK)
    used = {each.name: each for each in run.config.data.encoding}
    assert used["number"].missing
    assert used["town"].values == ("Lima", "Oslo")
    assert used["when"].values == ("2020-01-01 00:00:00",)


def test_a_hugging_face_data_set_with_splits(tmp_path):
    datasets = pytest.importorskip("datasets")
    label = datasets.ClassLabel(names=["place", "person"])
    features = datasets.Features({"text": datasets.Value("string"), "label": label})
    whole = datasets.Dataset.from_dict({"text": TEXTS, "label": [1, 0] * 12}, features=features)
    parts = datasets.DatasetDict({"train": whole.select(range(20)), "test": whole.select(range(20, 24))})
    run = pencil.train(parts, tmp_path / "run", settings=QUICK)
    prepared = rows_to_show(RunDirectory(run.path))
    assert (len(prepared.train), len(prepared.test)) == (20, 4)
    assert prepared.train.class_names[int(prepared.train.labels.hard[0])] == "person"
    assert "test_accuracy" in run.summary["last"]


def test_a_path_and_settings_still_work(tmp_path):
    np.savez(tmp_path / "x.npz", X=np.eye(20), y=np.arange(20) % 2)
    run = pencil.train(tmp_path / "x.npz", tmp_path / "run", settings=QUICK)
    again = pencil.train(run.config, tmp_path / "again")
    assert again.config == run.config


class Frame:
    """As much of a polars data frame as is read."""

    def iter_rows(self, *, named):
        assert named
        return iter([{"a": 1, "b": [1.0, float("nan")], "c": None}])


@pytest.mark.parametrize(
    "settings",
    [
        {"start.labels": "given"},
        {"method.name": "cross_entropy"},
        {"method": {"name": "generalized_cross_entropy", "q": 0.5}},
        {"method.label_rate": 2.0},
    ],
)
def test_settings_choose_as_those_of_the_command_line_do(tmp_path, settings):
    path = features(tmp_path)
    words = [f"{name}={value}" for name, value in _pairs(settings)]
    asked = train_config(str(path), None, None, settings=tuple(words))
    found = pencil.train(path, tmp_path / "run", settings=settings).config
    for section in ("method", "start", "phases", "data"):
        assert getattr(found, section) == getattr(asked, section)


def test_all_settings_at_once_may_be_changed_by_name(tmp_path):
    config = preset("features", str(features(tmp_path)))
    assert pencil.train(config, tmp_path / "run", settings={"seed": 3, **QUICK}).config.seed == 3
    other = pencil.train(
        config, tmp_path / "other method", settings={"method.name": "cross_entropy", **QUICK}
    )
    assert other.config.method == CrossEntropy()
    with pytest.raises(ConfigError, match="embed: data is a RunConfig"):
        pencil.train(config, tmp_path / "other", embed="minilm")


def features(folder):
    labels = np.arange(40) % 2
    values = labels[:, None] + np.random.default_rng(0).normal(size=(40, 4))
    np.savez(folder / "points.npz", X=values.astype(np.float32), y=labels)
    return folder / "points.npz"


def test_rows_have_plain_values():
    assert list(rows_of(Frame())) == [{"a": 1, "b": [1.0, None], "c": None}]


class Rows:
    """A data frame that looks at a file while its last row is read."""

    def __init__(self, path):
        self.path, self.seen = path, None

    def iter_rows(self, *, named):
        assert named
        for row in range(24):
            yield {"number": row % 2 + 0.01 * row, "label": KINDS[row]}
        self.seen = self.path.read_text() if self.path.exists() else None


def test_a_rank_that_writes_rows_does_not_disturb_one_that_reads_them(tmp_path):
    path = write_rows(Rows(tmp_path / "none"), tmp_path)
    complete = path.read_text()
    again = Rows(path)
    write_rows(again, tmp_path)
    assert again.seen == complete == path.read_text()
    assert len(complete.splitlines()) == 24
    assert [file.name for file in tmp_path.iterdir()] == ["rows.jsonl"]


def test_restarted_workers_continue_the_run_of_their_job(tmp_path, monkeypatch):
    out, frame = tmp_path / "run", Rows(tmp_path / "none")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "job 1")
    run = pencil.train(frame, out, settings=QUICK)
    assert pencil.train(frame, out, settings=QUICK).path == run.path
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "job 2")
    with pytest.raises(RunError, match="already contains a run"):
        pencil.train(frame, out, settings=QUICK)


def test_workers_of_the_same_job_with_other_rows_are_refused(tmp_path, monkeypatch):
    out, frame = tmp_path / "run", Rows(tmp_path / "none")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "job 1")
    pencil.train(frame, out, settings=QUICK)
    before = (out / "rows.jsonl").read_bytes()
    with pytest.raises(RunError, match="contains a run of this job on other rows"):
        pencil.train(Photos(), out, settings=QUICK)
    assert (out / "rows.jsonl").read_bytes() == before


def test_a_run_that_was_moved_reads_its_own_rows_where_another_took_its_place(tmp_path):
    run = pencil.train(Rows(tmp_path / "none"), tmp_path / "run", settings=QUICK)
    moved = RunDirectory(run.path.rename(tmp_path / "moved"))
    write_rows(Photos(), tmp_path / "run")
    assert evaluate(moved, "train")["examples"] == 24


def test_a_run_that_was_moved_takes_its_rows_along(tmp_path):
    run = pencil.train(Rows(tmp_path / "none"), tmp_path / "run", settings=QUICK)
    moved = RunDirectory(run.path.rename(tmp_path / "moved"))
    assert len(rows_to_show(moved).train) == 24
    assert evaluate(moved, "train")["examples"] == 24
    (moved.path / "summary.json").unlink()
    assert resume(moved.path).is_finished
    assert continued(None, moved.path, None)["data"]["path"] == str(moved.path / "rows.jsonl")


class Photos:
    """A data frame of image files below the current folder."""

    def iter_rows(self, *, named):
        assert named
        return iter([{"photo": f"photos/{row}.png", "label": KINDS[row]} for row in range(12)])


def test_image_files_of_a_frame_are_looked_for_in_the_current_folder(tmp_path, monkeypatch):
    image = pytest.importorskip("PIL.Image")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    for row in range(12):
        image.new("RGB", (8, 8), (120 * (row % 2), row, 0)).save(tmp_path / "photos" / f"{row}.png")
    small = {"model.name": "small_cnn", "data.size": 8, "data.validation": 0, "plan": "fixed", **QUICK}
    run = pencil.train(Photos(), tmp_path / "runs" / "a", columns={"path": "photo"}, settings=small)
    assert run.config.data.kind == "manifest"
    monkeypatch.chdir(run.path)
    with allowing([str(tmp_path)]):
        assert rows_to_show(RunDirectory(run.path)).train.ids[3] == str(tmp_path / "photos" / "3.png")


def test_what_is_no_data_is_refused(tmp_path):
    with pytest.raises(DataError, match="data is a list; give a path, a RunConfig, a pandas"):
        pencil.train([1, 2], tmp_path / "run")
    pandas = pytest.importorskip("pandas")
    with pytest.raises(DataError, match="column 'image' holds bytes; save images as files"):
        pencil.train(pandas.DataFrame({"image": [b"x"], "label": ["a"]}), tmp_path / "run")
