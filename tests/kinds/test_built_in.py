"""Settings that the format of the data does not use."""

import json

import numpy as np
import pytest

from pencil.errors import ConfigError
from pencil.kinds import FeaturesData, ImagesData
from pencil.run import read_splits
from pencil.run.sources import resolve_data


@pytest.fixture
def files(tmp_path):
    """The same rows as JSON lines, .npz and .npy, and a file of labels."""
    values, labels = [[1.0, 2.0], [3.0, 4.0]], [0, 1]
    lines = [json.dumps({"features": row, "label": label}) for row, label in zip(values, labels, strict=True)]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    np.savez(tmp_path / "rows.npz", X=np.array(values), y=np.array(labels))
    np.save(tmp_path / "rows.npy", np.array(values))
    np.save(tmp_path / "labels.npy", np.array(labels))
    return tmp_path


def section(files, name, **settings):
    return FeaturesData(kind="features", path=str(files / name), **settings)


@pytest.mark.parametrize(
    ("name", "settings", "told"),
    [
        (
            "rows.jsonl",
            {"labels": "labels.npy"},
            r"data.labels: 'labels.npy' is not used, .*data.columns.label=NAME",
        ),
        (
            "rows.jsonl",
            {"keys": {"features": "X"}},
            r"data.keys: .* has columns, not arrays; .*data.columns.ROLE",
        ),
        (
            "rows.npz",
            {"columns": {"label": "y"}},
            r"data.columns: .* has arrays, not columns; .*data.keys.ROLE",
        ),
        ("rows.npy", {"columns": {"label": "y"}, "labels": "labels.npy"}, r"data.columns: .*; leave it out"),
    ],
)
def test_settings_that_a_format_does_not_use_are_refused_when_a_run_begins(files, name, settings, told):
    with pytest.raises(ConfigError, match=told):
        resolve_data(section(files, name, **settings))


def test_settings_that_a_format_uses_are_kept(files):
    labels = str(files / "labels.npy")
    for data in (
        section(files, "rows.jsonl", columns={"label": "label"}),
        section(files, "rows.npz", keys={"features": "X"}, labels=labels),
        section(files, "rows.npy", labels=labels),
    ):
        assert resolve_data(data) is data
        assert read_splits(data).train.labels.values.tolist() == [0, 1]


def test_new_data_in_another_format_is_read_with_the_settings_of_a_run(files):
    for name, settings in (
        ("rows.jsonl", {"keys": {"features": "X"}}),
        ("rows.npz", {"columns": {"label": "y"}}),
    ):
        assert read_splits(section(files, name, **settings)).train.labels.values.tolist() == [0, 1]
    with pytest.raises(ConfigError, match=r"data.labels: .* is not used"):
        read_splits(section(files, "rows.jsonl", labels="labels.npy"))


@pytest.mark.parametrize("kind", ["folder", "cub200", "clothing1m"])
def test_columns_of_images_that_are_not_in_a_table_are_refused_when_a_run_begins(tmp_path, kind):
    data = ImagesData(kind=kind, path=str(tmp_path))
    assert resolve_data(data) is data
    with pytest.raises(
        ConfigError, match=rf"data.columns: .* is read as '{kind}', which has no columns; leave it out"
    ):
        resolve_data(data.model_copy(update={"columns": {"label": "species"}}))
