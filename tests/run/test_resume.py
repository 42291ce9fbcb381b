"""A run killed at any moment and resumed leaves, to the last bit, what an undisturbed run leaves."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from pencil.errors import RunError
from pencil.presets import preset
from pencil.run import RunDirectory

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


def wait_for_a_checkpoint_to_appear(process, out):
    """Returns while it is still being written."""
    while not checkpoints(out, "*") and process.poll() is None:
        time.sleep(0.001)


def checkpoints(out: Path, pattern="step-*"):
    return sorted((out / "checkpoints").glob(pattern))


def assert_same_run(out, expected, without_seconds):
    for name in ("model.safetensors", "labels/00000-00000.safetensors"):
        found, wanted = load_file(out / name), load_file(expected / name)
        assert found.keys() == wanted.keys()
        assert all(torch.equal(found[key], wanted[key]) for key in wanted), name
        assert (out / name).read_bytes() == (expected / name).read_bytes()
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
    assert [path.name for path in checkpoints(out)] == ["step-0000000054", "step-0000000057"]
    assert [path.name for path in checkpoints(out, ".*.partial")] == [".step-0000000060.partial"]
    assert start("resume", out, "--quiet").wait() == 0
    assert not checkpoints(out, ".*.partial")
    assert_same_run(out, undisturbed, without_seconds)


def test_killed_at_a_random_moment_a_run_ends_the_same(data, undisturbed, without_seconds, tmp_path):
    seed = time.time_ns()
    print("seed", seed)
    out = tmp_path / "run"
    process = start("train", data, "--out", out, *SETTINGS)
    wait_for_a_checkpoint_to_appear(process, out)
    time.sleep(random.Random(seed).uniform(0, 0.8))
    process.send_signal(signal.SIGKILL)
    assert process.wait() in (-signal.SIGKILL, 0)  # 0: it was faster
    print("left", [path.name for path in checkpoints(out)])
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
    with pytest.raises(RunError, match="holds no run"):
        RunDirectory.open(tmp_path)
    assert RunDirectory.create(tmp_path, config).config == config
