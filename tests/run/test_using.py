"""What one can do with a finished run: evaluate, predict."""

import shutil

import numpy as np
import pytest
import torch

from pencil.errors import ConfigError, DataError, RunError
from pencil.kinds import FeaturesData, ImagesData
from pencil.run import RunDirectory, evaluate, judged_labels, predict, resume, train
from pencil.run.using import _names_of_given


def test_accuracy_on_each_split(finished):
    assert evaluate(finished)["accuracy"] == finished.summary["last"]["test_accuracy"]
    held = evaluate(finished, "validation")
    assert held == {
        "split": "validation",
        "examples": 24,
        "accuracy": finished.summary["last"]["validation_accuracy"],
    }
    assert evaluate(finished, "train")["examples"] == 96


def test_a_split_that_is_not_there_names_those_that_are(make_config, tmp_path, points):
    arrays = np.load(points)
    np.savez(tmp_path / "train only.npz", X=arrays["X"], y=arrays["y"])
    directory = train(make_config(tmp_path / "train only.npz"), tmp_path / "run")
    with pytest.raises(ConfigError, match=r"--split test: not in the data of .*; use train"):
        evaluate(directory)
    with pytest.raises(ConfigError, match=r"--split test: not in .*train only.npz; use train"):
        predict(directory, directory.config.data, "test")


def test_predictions_are_the_models_own_in_order(finished, points):
    data = FeaturesData(kind="features", path=str(points))
    chunks, names = predict(finished, data, "test")
    (chunk,) = chunks
    assert names == ("cat", "żółć", "cow, small")
    truth = [names[label] for label in np.load(points)["y_test"].tolist()]
    assert [names[label] for label in chunk.given.tolist()] == truth
    assert list(chunk.ids) == [str(row) for row in range(30)]
    right = sum(names[best] == name for best, name in zip(chunk.distribution.argmax(1), truth, strict=True))
    assert right / 30 == evaluate(finished)["accuracy"]


def test_new_data_keeps_its_own_class_names_unless_it_only_numbers_them(finished, points, tmp_path):
    arrays = np.load(points)
    np.savez(tmp_path / "numbered.npz", X=arrays["X"][:4], y=np.array([2, 1, 0, 1]))
    np.savez(
        tmp_path / "named.npz",
        X=arrays["X"][:2],
        y=np.array([1, 0]),
        names=np.array(["dog", "ant", "x", "y"]),
    )
    given = {}
    for name in ("numbered", "named"):
        chunks, names = predict(finished, FeaturesData(kind="features", path=str(tmp_path / f"{name}.npz")))
        given[name] = [names[label] for label in next(chunks).given.tolist()]
        assert names[:3] == ("cat", "żółć", "cow, small")
    assert given == {"numbered": ["cow, small", "żółć", "cat", "żółć"], "named": ["ant", "dog"]}


@pytest.mark.filterwarnings("ignore:.*no row has a class below 1")
@pytest.mark.parametrize("labels", [[2, 1], [1, 2, 3], [0, 3]])
def test_numbers_that_may_count_from_1_are_refused(finished, points, tmp_path, labels):
    path = tmp_path / "new.npz"
    np.savez(path, X=np.load(points)["X"][: len(labels)], y=np.array(labels))
    with pytest.raises(DataError, match=r"new.npz: its labels .*write the names"):
        predict(finished, FeaturesData(kind="features", path=str(path)))


@pytest.mark.parametrize(
    ("data", "model", "found"),
    [
        ("0123", "0123", "0123"),
        ("1234", "1234", "1234"),
        ("01234", "0123", "01234"),  # a new class
        ("12345", "1234", "12345"),
        ("02", "0123", "02"),
        ("02", "abcd", "ac"),
        ("0x", "0123", "0x"),
        ("ab", "abc", "ab"),
    ],
)
def test_names_of_given_labels(data, model, found):
    assert _names_of_given(tuple(data), tuple(model), "new.npz") == tuple(found)


@pytest.mark.parametrize(
    ("data", "model"), [("123", "abcd"), ("1234", "0123"), ("0123", "1234"), ("0", "1234"), ("01234", "abcd")]
)
def test_numbers_that_do_not_agree_with_the_model_are_refused(data, model):
    with pytest.raises(DataError):
        _names_of_given(tuple(data), tuple(model), "new.npz")


def test_numbers_without_the_models_first_are_taken_as_names_with_a_warning():
    for data, model in (("123", "0123"), ("234", "1234")):
        with pytest.warns(UserWarning, match=r"labels . to .*taken for the classes with these names"):
            assert _names_of_given(tuple(data), tuple(model), "new.npz") == tuple(data)


def test_rows_without_labels_are_predicted_as_those_with_them(finished, points, tmp_path):
    arrays = np.load(points)
    np.save(tmp_path / "new.npy", arrays["X_test"])
    np.savez(tmp_path / "new.npz", X=arrays["X_test"], ids=np.array([f"new {row}" for row in range(30)]))
    (labelled,), _ = predict(finished, FeaturesData(kind="features", path=str(points)), "test")
    for name, first in (("new.npy", "0"), ("new.npz", "new 0")):
        data = FeaturesData(kind="features", path=str(tmp_path / name))
        (chunk,), _ = predict(finished, data)
        assert torch.equal(chunk.distribution, labelled.distribution)
        assert (chunk.has_given, chunk.ids[0]) == (False, first)
        with pytest.raises(ConfigError, match=rf"--split test: .*{name} has no labels.*leave --split out"):
            predict(finished, data, "test")


def test_labels_that_a_file_shows_are_not_overlooked(finished, points, tmp_path):
    arrays = np.load(points)
    np.savez(tmp_path / "half.npz", X=arrays["X"], y_test=arrays["y_test"])
    with pytest.raises(DataError, match="expected for labels one of"):
        predict(finished, FeaturesData(kind="features", path=str(tmp_path / "half.npz")))


def test_data_of_another_shape_is_refused_before_anything_is_written(finished, tmp_path, manifest):
    np.savez(tmp_path / "wide.npz", X=np.ones((4, 9), "f4"), y=np.arange(4) % 2)
    wide = FeaturesData(kind="features", path=str(tmp_path / "wide.npz"))
    for data in (wide, ImagesData(kind="manifest", path=str(manifest))):
        with pytest.raises(DataError, match=r"the model takes inputs \(6,\); predict on data like the run"):
            predict(finished, data)


def test_an_unfinished_run_predicts_nothing(finished, tmp_path, points):
    (tmp_path / "config.toml").write_bytes((finished.path / "config.toml").read_bytes())
    directory = type(finished)(tmp_path)
    for ask in (
        lambda: evaluate(directory),
        lambda: predict(directory, finished.config.data),
        lambda: judged_labels(directory),
    ):
        with pytest.raises(RunError, match="is not finished"):
            ask()


@pytest.fixture
def from_gpu(finished, tmp_path, monkeypatch):
    """A copy of a run that was trained on a GPU, on a machine without one."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    folder = shutil.copytree(finished.path, tmp_path / "run")
    settings = (folder / "config.toml").read_text(encoding="utf-8")
    (folder / "config.toml").write_text(
        settings.replace('device = "auto"', 'device = "cuda"'), encoding="utf-8"
    )
    return RunDirectory(folder)


def test_a_run_from_a_gpu_is_used_on_a_machine_without_one(from_gpu, finished, points):
    assert from_gpu.config.train.device == "cuda"
    with pytest.warns(UserWarning, match="train.device: the run was trained on 'cuda', .*'cpu' is used"):
        assert evaluate(from_gpu) == evaluate(finished)
    with pytest.warns(UserWarning, match="'cpu' is used"):
        predict(from_gpu, FeaturesData(kind="features", path=str(points)), "test")


def test_a_run_from_a_gpu_that_is_to_continue_without_one_names_the_remedy(from_gpu):
    (from_gpu.path / "summary.json").unlink()
    with pytest.raises(
        ConfigError, match=r'to continue here, write device = "auto" under \[train\] in .*config.toml'
    ):
        resume(from_gpu.path)
    file = from_gpu.path / "config.toml"
    file.write_text(file.read_text(encoding="utf-8").replace("cuda", "auto"), encoding="utf-8")
    assert resume(from_gpu.path).is_finished
