"""A run belongs to its data: what changed is refused and named, unless somebody says to go on."""

import json
import shutil

import numpy as np
import pytest

from pencil.data import Beside
from pencil.data.fingerprint import fingerprint
from pencil.errors import RunError
from pencil.report import gather
from pencil.review import Review
from pencil.run import ChangedDataError, RunDirectory, evaluate, own_examples, resume, rows_to_show, train
from support.runs import reseal


@pytest.fixture
def arrays(points):
    with np.load(points) as file:
        return dict(file)


@pytest.fixture
def run(make_config, points, tmp_path):
    """A finished run on data of its own, which a test may change."""
    shutil.copy(points, tmp_path / "points.npz")
    noise = {"kind": "symmetric", "rate": 0.3}
    config = make_config(tmp_path / "points.npz", epochs=(1, 6, 1), data={"noise": noise})
    return train(config, tmp_path / "run")


def swap_two_labels(arrays):
    first, second = 0, next(row for row in range(120) if arrays["y"][row] != arrays["y"][0])
    arrays["y"][[first, second]] = arrays["y"][[second, first]]


def reverse(arrays):
    for name in ("X", "y", "ids"):
        arrays[name] = arrays[name][::-1]


def drop_a_row(arrays):
    for name in ("X", "y", "ids"):
        arrays[name] = arrays[name][:-1]


def scale(arrays):
    arrays["X"] = arrays["X"] * 1.01


def rename(arrays):
    arrays["names"][0] = "kot"


def change_test(arrays):
    arrays["y_test"][0] = (arrays["y_test"][0] + 1) % 3


CHANGES = {
    swap_two_labels: "train: labels differ",
    reverse: "train: ids differ; train: labels differ; train: contents of examples differ",
    drop_a_row: "train: it had 120 rows and has 119",
    scale: "train: contents of examples differ",
    rename: "train: class names differ",
    change_test: "test: labels differ",
}


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_changed_data_is_refused_and_what_differs_is_named(run, arrays, change, tmp_path):
    change(arrays)
    np.savez(tmp_path / "points.npz", **arrays)
    attempts = (
        lambda: own_examples(run),
        lambda: rows_to_show(run),
        lambda: evaluate(run, "train"),
        lambda: gather(run),
        lambda: Review(run),
    )
    for attempt in attempts:
        with pytest.raises(ChangedDataError) as refused:
            attempt()
        assert CHANGES[change] in str(refused.value)
        assert "--changed-data" in str(refused.value)
    assert evaluate(run, "train", changed_data=True)["examples"] == len(arrays["y"])
    assert gather(run, changed_data=True).totals


@pytest.mark.parametrize("change", ["ids", "rows"])
def test_rows_that_change_places_are_noticed_and_not_shown(run, arrays, change, tmp_path):
    shown = gather(run).corrections + gather(run).reviews
    if change == "ids":
        two = [arrays["ids"].tolist().index(each.case.id) for each in shown[:2]]
        arrays["ids"][two] = arrays["ids"][two[::-1]]
    else:
        two = np.flatnonzero(arrays["y"] == arrays["y"][7])[1:3]  # the labels stay as they are
        arrays["X"][two] = arrays["X"][two[::-1]]
    np.savez(tmp_path / "points.npz", **arrays)
    (tmp_path / "t.csv").write_text("id,text\n" + "".join(f"{name},of {name}\n" for name in arrays["ids"]))
    beside = Beside("texts", tmp_path / "t.csv")
    for attempt in (lambda: own_examples(run), lambda: gather(run, beside=beside)):
        with pytest.raises(ChangedDataError):
            attempt()
    anyway = gather(run, changed_data=True, beside=beside)
    texts = [each.text for each in anyway.corrections + anyway.reviews]
    assert texts == [None if change == "ids" else f"of {each.case.id}" for each in shown]


def test_the_fingerprint_of_a_run_of_before_still_counts(run, arrays, tmp_path):
    """Such a run has sampled marks, without "numbered"."""
    kept = json.loads((run.path / "data.json").read_text())
    assert kept["train"]["numbered"] is False
    kept |= {
        split: fingerprint(getattr(own_examples(run).source, split), sampled=True)
        for split in ("train", "test")
    }
    (run.path / "data.json").write_text(json.dumps(kept))
    reseal(run.path / "data.json")
    own_examples(run)
    reverse(arrays)
    np.savez(tmp_path / "points.npz", **arrays)
    with pytest.raises(ChangedDataError, match=r"ids differ; .*labels differ"):
        own_examples(run)


def test_a_run_is_not_resumed_on_other_labels(run, arrays, tmp_path):
    (run.path / "summary.json").unlink()
    before = (run.path / "model.safetensors").read_bytes()
    swap_two_labels(arrays)
    np.savez(tmp_path / "points.npz", **arrays)
    with pytest.raises(ChangedDataError, match="train: labels differ"):
        resume(run.path)
    assert resume(run.path, changed_data=True).is_finished
    assert (run.path / "model.safetensors").read_bytes() == before  # the last checkpoint had it


def test_a_changed_file_of_noisy_labels_is_noticed(make_config, arrays, tmp_path):
    np.save(tmp_path / "noisy.npy", arrays["y"])
    config = make_config(
        epochs=(1, 6, 1), data={"noise": {"kind": "file", "path": str(tmp_path / "noisy.npy")}}
    )
    run = train(config, tmp_path / "run")
    assert own_examples(run).train.labels.hard.tolist() == arrays["y"].tolist()
    np.save(tmp_path / "noisy.npy", (arrays["y"] + 1) % 3)
    with pytest.raises(ChangedDataError, match=r"the labels from data.noise or data.trusted differ"):
        own_examples(run)


def test_data_out_of_reach_is_another_matter(run, tmp_path):
    (tmp_path / "points.npz").unlink()
    assert "cannot be read" in gather(run).notes[0]
    review = Review(run)
    assert "no images are shown" in review.trouble
    review.close()


def test_a_run_without_a_fingerprint_passes(run, arrays, tmp_path):
    (run.path / "data.json").unlink()
    swap_two_labels(arrays)
    np.savez(tmp_path / "points.npz", **arrays)
    assert evaluate(run, "train")["examples"] == 120


def test_a_fingerprint_that_is_none_is_an_error_in_words(run):
    (run.path / "data.json").write_text("{")
    with pytest.raises(RunError, match=r"data\.json cannot be read"):
        own_examples(run)
    (run.path / "data.json").write_text(json.dumps({"train": [], "test": 3}))
    with pytest.raises(RunError):
        own_examples(RunDirectory.open(run.path))
