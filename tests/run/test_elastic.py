"""Runs under a real torchrun: a worker killed, the launcher told to stop, a folder that was there before."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file

ROWS = 400
ELASTIC = Path(__file__).parents[2] / "benchmarks" / "elastic.py"
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
LAUNCH = ("torch.distributed.run", "--standalone", "--nproc_per_node=2", "--max-restarts=3", "-m", "pencil")
SETTINGS = ("train.parallel=fsdp", "train.batch_size=10", "checkpoint.steps=25", "method.label_rate=4.0")


@pytest.fixture
def data(tmp_path):
    generator = np.random.default_rng(0)
    labels = generator.integers(4, size=ROWS)
    features = 3 * generator.normal(size=(4, 8))[labels] + generator.normal(size=(ROWS, 8))
    np.savez(tmp_path / "features.npz", X=features.astype(np.float32), y=labels)
    return tmp_path / "features.npz"


def test_a_run_whose_worker_is_killed_goes_on_with_the_same_command_and_ends_the_same():
    found = subprocess.run(
        [sys.executable, ELASTIC, "--runs", "1", "--seed", "1", "--json"],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    figures = json.loads(found.stdout.splitlines()[-1])["figures"]
    assert (figures["runs"], figures["runs_completed"], figures["runs_equal"]) == (1, 1, 1), found.stderr
    assert "exitcode: -9" in found.stderr  # so a worker was killed indeed


def test_torchrun_told_to_stop_leaves_a_checkpoint_that_one_process_continues(data, tmp_path):
    out = tmp_path / "run"
    settings = [word for setting in SETTINGS for word in ("--set", setting)]
    train = ("train", data, "--out", out, "--epochs", "1,6,3", "--quiet", *settings)
    launcher = subprocess.Popen(
        [sys.executable, "-m", *LAUNCH, *map(str, train)],
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not list(out.glob("checkpoints/step-*")) and launcher.poll() is None:
        time.sleep(0.01)
    launcher.terminate()
    told = launcher.communicate(timeout=60)[1]
    assert "stopped with a checkpoint; continue with: pencil resume" in told
    assert launcher.returncode != 0
    assert not (out / "summary.json").exists()
    assert (
        subprocess.run([sys.executable, "-m", "pencil", "resume", out, "--quiet"], env=ENVIRONMENT).returncode
        == 0
    )
    assert json.loads((out / "summary.json").read_text())["examples"] == ROWS
    assert load_file(out / "model.safetensors")["1.weight"].shape == (4, 8)
