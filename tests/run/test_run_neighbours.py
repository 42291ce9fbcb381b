"""Near-identical rows and outliers of a run: found, the same after resume and over ranks, and left out if asked."""

import json

import numpy as np
import pytest

from pencil.errors import RunError
from pencil.identity import unsealed
from pencil.results import read_neighbours
from pencil.run import LabelTable, RunDirectory, resume, train
from support import runs
from support.ranks import on_ranks

ROWS, TESTS, DIMS = 400, 60, 12
FILES = ("neighbours.json", "neighbours.safetensors")


@pytest.fixture(scope="session")
def planted(tmp_path_factory):
    """Rows 0 to 9 again at the end with noise, five of them with another label; three outliers; five tests in train."""
    rng = np.random.default_rng(3)
    labels = rng.integers(3, size=ROWS + TESTS)
    values = (3 * np.eye(DIMS)[labels] + rng.normal(size=(ROWS + TESTS, DIMS))).astype(np.float32)
    train_x, train_y = values[:ROWS], labels[:ROWS]
    copies = train_x[:10] + rng.normal(scale=0.01, size=(10, DIMS)).astype(np.float32)
    copied = np.concatenate([(train_y[:5] + 1) % 3, train_y[5:10]])
    train_x[20:23] = 40 * rng.normal(size=(3, DIMS))
    test_x = values[ROWS:]
    test_x[:5] = train_x[50:55]
    path = tmp_path_factory.mktemp("planted") / "planted.npz"
    np.savez(
        path,
        X=np.concatenate([train_x, copies]),
        y=np.concatenate([train_y, copied]),
        X_test=test_x,
        y_test=labels[ROWS:],
    )
    return path


@pytest.fixture(scope="session")
def config(planted, make_config):
    return make_config(planted, epochs=(1, 5, 0), data={"validation": 0.0})


@pytest.fixture(scope="session")
def compared(config, tmp_path_factory):
    return train(config, tmp_path_factory.mktemp("compared") / "run")


def contents(run):
    return {name: unsealed(run.path / name) for name in FILES}


def test_planted_rows_are_found(compared):
    found = LabelTable.open(compared).near
    assert found.counts.differing_groups == 5
    assert found.counts.differing_rows == 10
    assert found.counts.duplicate_rows == 25
    assert found.counts.duplicate_groups == 15
    assert found.counts.test_rows_in_train == 5
    assert found.counts.validation_rows_in_train == 0
    assert found.counts.outliers == 3
    groups = found.groups["train"]
    assert groups[:10].tolist() == groups[ROWS:].tolist() == list(range(10))
    assert groups[50:55].tolist() == found.groups["test"][:5].tolist()
    assert found.outlier.nonzero()[:, 0].tolist() == [20, 21, 22]
    assert found.has_different_labels().nonzero()[:, 0].tolist() == [*range(5), *range(ROWS, ROWS + 5)]


def test_rows_held_out_for_validation_are_compared(planted, make_config, tmp_path):
    run = train(make_config(planted, epochs=(1, 5, 0), data={"validation": 0.5}), tmp_path / "run")
    found = LabelTable.open(run).near
    split = found.groups["validation"]
    assert 0 < found.counts.validation_rows_in_train == int((split >= 0).sum()) - _alone(found)


def _alone(found):
    """Validation rows whose group has no training row."""
    train_groups = set(found.groups["train"].tolist())
    return sum(group >= 0 and group not in train_groups for group in found.groups["validation"].tolist())


def test_results_that_are_lost_come_back_the_same(compared, config, tmp_path):
    run = train(config, tmp_path / "run")
    (run.path / "summary.json").unlink()
    (run.path / "neighbours.json").unlink()
    resume(run.path)
    assert contents(run) == contents(compared)


@pytest.mark.ranks
@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_find_what_one_process_does(compared, tmp_path, ranks):
    (tmp_path / "config.toml").write_text(compared.config.toml())
    on_ranks(ranks, "train", "--config", tmp_path / "config.toml", "--out", tmp_path / "together")
    assert contents(RunDirectory.open(tmp_path / "together")) == contents(compared)


def test_a_setting_turns_it_off(config, tmp_path):
    run = train(config.model_copy(update={"neighbours": False}), tmp_path / "run")
    assert not any((run.path / name).exists() for name in FILES)
    assert LabelTable.open(run).near is None


def test_images_are_not_compared(manifest, tmp_path):
    from pencil.config import RunConfig
    from pencil.presets import preset

    table = preset("manifest", str(manifest)).table()
    table["data"] |= {"size": 8, "augment": None, "validation": 0.0}
    table["plan"] = "fixed"
    table["model"] = {"name": "small_cnn", "args": {"widths": [4, 4, 4]}}
    table["phases"] = [{**phase, "epochs": int(place == 0)} for place, phase in enumerate(table["phases"])]
    run = train(RunConfig.of(table), tmp_path / "run")
    assert not (run.path / "neighbours.json").exists()


def test_too_many_rows_are_not_compared(config, tmp_path, monkeypatch):
    monkeypatch.setattr("pencil.run.neighbours.MOST_ROWS", 100)
    assert not (train(config, tmp_path / "run").path / "neighbours.json").exists()


def test_damage_is_named_with_a_remedy(config, tmp_path):
    run = train(config, tmp_path / "run")
    file = run.path / "neighbours.json"
    before = file.read_text()
    file.write_text(json.dumps(json.loads(before) | {"outliers": -1}))
    runs.reseal(file)
    with pytest.raises(
        RunError, match=r"neighbours.json cannot be read \(outliers: .*remove it to use the run without"
    ):
        LabelTable.open(run)
    file.write_text(json.dumps(json.loads(before) | {"duplicate_groups": 3}))
    runs.reseal(file)
    with pytest.raises(
        RunError, match=r"safetensors cannot be read .*remove neighbours.json to use the run without it"
    ):
        LabelTable.open(run)
    file.unlink()
    assert LabelTable.open(run).near is None
    file.write_text(before)
    with pytest.raises(RunError, match="not the arrays of 7 rows"):
        read_neighbours(run.path, 7)
