"""Runs under a real torchrun: a worker killed, the launcher told to stop, a folder that was there before."""

import importlib
import json
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file

from support.ranks import torchrun

pytestmark = pytest.mark.ranks

ROWS = 400
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
LAUNCH = (*torchrun(2, "--max-restarts=3"), "-m", "pencil")
SETTINGS = ("train.parallel=fsdp", "train.batch_size=10", "checkpoint.steps=25", "method.label_rate=4.0")


@pytest.fixture
def data(tmp_path):
    generator = np.random.default_rng(0)
    labels = generator.integers(4, size=ROWS)
    features = 3 * generator.normal(size=(4, 8))[labels] + generator.normal(size=(ROWS, 8))
    np.savez(tmp_path / "features.npz", X=features.astype(np.float32), y=labels)
    return tmp_path / "features.npz"


def test_a_run_whose_worker_is_killed_goes_on_with_the_same_command(tmp_path, monkeypatch, capfd):
    """The benchmark, once, and shorter; there the results are compared with those of an undisturbed run."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    elastic = importlib.import_module("elastic")
    monkeypatch.setattr(elastic, "TRAIN", ("--epochs", "1,2,1", "--noise", "symmetric:0.3", "--json"))
    elastic.write_features(tmp_path / "features.npz")
    result = elastic.one_run(tmp_path, "run", partial(elastic.kill_worker, 0, 50, 0.0))
    assert result["killed"]
    assert result["completed"]
    told = capfd.readouterr().err
    assert "exitcode: -9" in told
    assert "already contains a run" not in told
    steps = [
        json.loads(line)["step"] for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    ]
    assert steps == [50, 100, 150, 200]


def test_torchrun_told_to_stop_leaves_a_checkpoint_that_one_process_continues(data, tmp_path):
    out = tmp_path / "run"
    settings = [word for setting in SETTINGS for word in ("--set", setting)]
    train = ("train", data, "--out", out, "--epochs", "1,3,2", "--quiet", *settings)
    launcher = subprocess.Popen(
        [sys.executable, *LAUNCH, *map(str, train)],
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not list(out.glob("checkpoints/step-*")) and launcher.poll() is None:
        time.sleep(0.01)
    launcher.terminate()
    told = launcher.communicate(timeout=60)[1]
    assert "stopped after saving a checkpoint; continue with: pencil resume" in told
    assert launcher.returncode != 0
    assert not (out / "summary.json").exists()
    assert (
        subprocess.run([sys.executable, "-m", "pencil", "resume", out, "--quiet"], env=ENVIRONMENT).returncode
        == 0
    )
    assert json.loads((out / "summary.json").read_text())["examples"] == ROWS
    assert load_file(out / "model.safetensors")["1.weight"].shape == (4, 8)
