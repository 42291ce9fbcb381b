"""A run killed at any moment and resumed leaves, to the last bit, what an undisturbed run leaves."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from pencil.errors import RunError
from pencil.identity import unsealed
from pencil.presets import preset
from pencil.run import RunDirectory

pytestmark = pytest.mark.slow

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
SETTINGS = [
    *("--noise", "symmetric:0.4", "--epochs", "1,4,2", "--seed", "5", "--quiet"),
    *("--set", "checkpoint.steps=3", "--set", "method.label_rate=2.0", "--set", "train.batch_size=30"),
    *("--set", "model.name=mlp", "--set", "model.args.dropout=0.5", "--set", "data.validation=0.1"),
]
DIE_WHILE_SAVING = """
import os, signal, sys
from pencil.engine import checkpoint
publish, saves = checkpoint.publish, []
def publish_or_die(partial, path):
    saves.append(path)
    if len(saves) == {save}:
        os.kill(os.getpid(), signal.SIGKILL)
    publish(partial, path)
checkpoint.publish = publish_or_die
from pencil.cli import main
main()
"""

DIE_AT_A_STEP = """
import os, signal
from pencil.engine import LabelLearner
step, steps = LabelLearner.loss, []
def step_or_die(*words, **named):
    steps.append(1)
    if len(steps) == {step}:
        os.kill(os.getpid(), signal.SIGKILL)
    return step(*words, **named)
LabelLearner.loss = step_or_die
from pencil.cli import main
main()
"""
STEP = 50  # within an epoch and, with a checkpoint every third step, between two of them


@pytest.fixture(scope="module")
def data(blobs, tmp_path_factory):
    """The clean blobs, as a file."""
    file = tmp_path_factory.mktemp("data") / "blobs.npz"
    train, test = blobs.train, blobs.test
    np.savez(
        file,
        features=train.inputs.values.numpy(),
        labels=train.reference.numpy(),
        test_features=test.inputs.values.numpy(),
        test_labels=test.labels.hard.numpy(),
    )
    return file


@pytest.fixture(scope="module")
def undisturbed(data, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "undisturbed"
    assert start("train", data, "--out", out, *SETTINGS).wait() == 0
    return out


def start(*words, program=("-m", "pencil")):
    return subprocess.Popen([sys.executable, *program, *map(str, words)], env=ENVIRONMENT)


def checkpoints(out: Path, pattern="step-*"):
    return sorted((out / "checkpoints").glob(pattern))


def assert_same_run(out, expected, without_seconds):
    for name in ("model.safetensors", "labels/00000-00000.safetensors"):
        found, wanted = load_file(out / name), load_file(expected / name)
        assert found.keys() == wanted.keys()
        assert all(torch.equal(found[key], wanted[key]) for key in wanted), name
        assert unsealed(out / name) == unsealed(expected / name)
    assert without_seconds(out / "metrics.jsonl") == without_seconds(expected / "metrics.jsonl")


def test_killed_before_the_first_checkpoint_then_while_saving_a_run_ends_the_same(
    data, undisturbed, without_seconds, tmp_path
):
    out = tmp_path / "run"
    program = ("-c", DIE_WHILE_SAVING.format(save=1))
    assert start("train", data, "--out", out, *SETTINGS, program=program).wait() == -signal.SIGKILL
    assert not checkpoints(out)
    assert len(checkpoints(out, ".*.partial")) == 1
    program = ("-c", DIE_WHILE_SAVING.format(save=20))
    assert start("resume", out, "--quiet", program=program).wait() == -signal.SIGKILL
    newest = [path.name for path in checkpoints(out)][-2:]  # beside that of the best labels
    assert newest == ["step-0000000054", "step-0000000057"]
    assert [path.name for path in checkpoints(out, ".*.partial")] == [".step-0000000060.partial"]
    assert start("resume", out, "--quiet").wait() == 0
    assert not checkpoints(out, ".*.partial")
    assert_same_run(out, undisturbed, without_seconds)


def test_killed_between_two_checkpoints_a_run_ends_the_same(data, undisturbed, without_seconds, tmp_path):
    out = tmp_path / "run"
    program = ("-c", DIE_AT_A_STEP.format(step=STEP))
    assert start("train", data, "--out", out, *SETTINGS, program=program).wait() == -signal.SIGKILL
    assert not (out / "summary.json").exists()
    assert (
        checkpoints(out)[-1].name <= f"step-{STEP:010d}"
    )  # the last one may still have been on its way to disk
    assert start("resume", out, "--quiet").wait() == 0
    assert_same_run(out, undisturbed, without_seconds)


def test_a_crash_while_settings_are_written_leaves_no_half_run(tmp_path, monkeypatch):
    config = preset("features", "blobs.npz")

    def crash(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("pencil.durable.Path.replace", crash)
        with pytest.raises(KeyboardInterrupt):
            RunDirectory.create(tmp_path, config)
    with pytest.raises(RunError, match="is not a run"):
        RunDirectory.open(tmp_path)
    assert RunDirectory.create(tmp_path, config).config == config
