"""A run with a policy, from settings to summary, and killed while it saves what the policy keeps."""

import os
import signal
import subprocess
import sys

import pytest

from pencil.engine import Continue, Restore, ended, read_metrics
from pencil.identity import unsealed
from pencil.run import resume, train

pytestmark = pytest.mark.slow

PROGRAM = """
import os, signal, sys
from pathlib import Path
from pencil.config import RunConfig
from pencil.engine import checkpoint
from test_run_policies import Best, train
publish = checkpoint.publish
def die(partial, path):
    if (partial / checkpoint.NEEDS).exists():
        os.kill(os.getpid(), signal.SIGKILL)
    publish(partial, path)
checkpoint.publish = die
train(RunConfig.read(Path(sys.argv[1])), sys.argv[2], policy=Best())
"""


class Best:
    """Ends a run after its third epoch, with the second."""

    def decide(self, end):
        epoch = end.metrics["epoch"]
        if epoch == 3:
            return Restore("best", ended(end.phases, end.kept["best"]))
        return Continue(keep="best") if epoch == 2 else Continue()


@pytest.fixture(scope="module")
def config(make_config):
    return make_config()


@pytest.fixture(scope="module")
def undisturbed(config, tmp_path_factory):
    return train(config, tmp_path_factory.mktemp("runs") / "whole", policy=Best())


def labels_and_weights(directory):
    files = [directory.path / "model.safetensors", *sorted(directory.labels.iterdir())]
    return [unsealed(file) for file in files]


def test_the_summary_is_that_of_the_epoch_the_run_ended_with(undisturbed):
    assert undisturbed.is_finished
    summary, epochs = undisturbed.summary, read_metrics(undisturbed.metrics)
    assert [line["epoch"] for line in epochs] == [1, 2]
    assert summary["last"]["epoch"] == 2
    assert summary["last"]["test_accuracy"] == epochs[-1]["test_accuracy"]
    assert summary["seconds"] == pytest.approx(sum(line["seconds"] for line in epochs), abs=1e-3)


def test_a_run_killed_while_saving_what_the_policy_keeps_ends_the_same(config, undisturbed, tmp_path):
    (tmp_path / "config.toml").write_text(config.toml())
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-c", PROGRAM, str(tmp_path / "config.toml"), str(tmp_path / "run")]
    assert subprocess.run(words, env=environment, check=False).returncode == -signal.SIGKILL
    assert list((tmp_path / "run" / "checkpoints").glob(".step-*.partial"))
    resumed = resume(tmp_path / "run", policy=Best())
    assert resumed.is_finished
    assert labels_and_weights(resumed) == labels_and_weights(undisturbed)
