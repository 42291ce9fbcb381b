"""``--start`` and ``--expert`` on the command line."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from pencil.cli.main import cli
from pencil.errors import RunError
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
