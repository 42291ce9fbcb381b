"""``--start`` and ``--expert`` on the command line."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from pencil.cli.main import cli
from pencil.config import RunConfig
from pencil.configure import train_config
from pencil.errors import RunError
from pencil.presets import preset, start_from
from pencil.run import RunDirectory


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=90)
    file = tmp_path_factory.mktemp("data") / "points.npz"
    np.savez(file, X=(3 * np.eye(5)[labels] + rng.normal(size=(90, 5))).astype(np.float32), y=labels)
    return file


def call(*words):
    return CliRunner().invoke(cli, [str(word) for word in words])


def test_a_run_starts_from_prototypes_and_both_experts_predict(data, tmp_path):
    run = tmp_path / "run"
    done = call("train", data, "--start", "prototypes", "--epochs", "1,5,1", "--out", run, "--quiet")
    assert done.exit_code == 0, done.output
    assert "no label can flip" not in done.output
    config = RunDirectory.open(run).config
    assert (config.start.labels, config.method.form, config.method.pull) == ("prototypes", "printed", 3.0)
    alone, both = (
        json.loads(call("evaluate", run, "--split", "train", "--json", *more).stdout)
        for more in ((), ("--expert",))
    )
    assert both["accuracy"] > 0.9 < alone["accuracy"]
    out = tmp_path / "predicted.csv"
    assert call("predict", run, data, "--out", out, "--expert").exit_code == 0
    assert len(out.read_text().splitlines()) == 91


def test_a_run_from_given_labels_has_no_second_expert(data, tmp_path):
    run = tmp_path / "run"
    call("train", data, "--start", "given", "--epochs", "1,5,1", "--out", run, "--quiet")
    refused = call("evaluate", run, "--split", "train", "--expert")
    assert isinstance(refused.exception, RunError)
    assert "has no second expert; train it on features with: --start prototypes" in str(refused.exception)


@pytest.mark.parametrize(
    ("method", "labels", "form", "pull"),
    [
        ({"name": "pencil", "pull": 0.0}, "given", "reference", 0.0),
        ({"name": "pencil", "pull": 10.0, "form": "reference"}, "given", "reference", 10.0),
        ({"name": "pencil", "pull": 3.0, "form": "printed"}, "given", "reference", 1.0),
        ({"name": "pencil"}, "prototypes", "printed", 3.0),
        (None, "prototypes", "printed", 3.0),
        ({"name": "pencil", "pull": 2.0}, "prototypes", "reference", 2.0),
    ],
)
def test_knobs_of_ones_own_stay_and_usual_ones_belong_to_the_start(data, method, labels, form, pull):
    table = preset("features", str(data)).table() | ({} if method is None else {"method": method})
    if method is None:
        del table["method"]
    start_from(table, labels, own=True)
    found = RunConfig.of(table)
    assert (found.start.labels, found.method.form, found.method.pull) == (labels, form, pull)


def test_a_preset_keeps_its_pull_from_given_labels_and_has_the_starts_from_prototypes(data):
    name = "paper:cub200-lambda3000-alpha0"
    usual = preset(name, str(data)).method
    assert train_config(str(data), None, name, start="given").method == usual
    other = train_config(str(data), None, name, start="prototypes").method
    assert (usual.pull, other.form, other.pull) == (0.0, "printed", 3.0)
