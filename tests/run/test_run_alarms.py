"""Alarms in whole runs: from settings to summary and report, with estimates, after a kill, and on two ranks."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from pencil.belief import NoiseSums
from pencil.config import RunConfig
from pencil.engine import read_json_lines, read_metrics
from pencil.errors import AlarmError
from pencil.identity import unsealed
from pencil.presets import preset
from pencil.report import gather
from pencil.report.markdown import escaped, markdown
from pencil.run import RunDirectory, resume, train

pytestmark = pytest.mark.slow

KILLED = """
import os, signal, sys
from pathlib import Path
from pencil.belief import NoiseSums
from pencil.config import RunConfig
from pencil.engine import loop
from pencil.run import train
restore, save = loop.Loop._restore, loop.Loop._save
def restore_and_die_at_the_next_save(self, name):
    restore(self, name)
    saved = self._saver.save
    def die(*args, **options):
        saved(*args, **options)
        self.training.checkpoints.wait()
        os.kill(os.getpid(), signal.SIGKILL)
    self._saver.save = die
loop.Loop._restore = restore_and_die_at_the_next_save
train(RunConfig.read(Path(sys.argv[1])), sys.argv[2])
"""


@pytest.fixture(scope="module")
def weak(tmp_path_factory):
    """Features that tell five classes apart in most cases: less often than labels of which 95 % are right."""
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(5, 8))
    centers *= 2.0 / np.linalg.norm(centers, axis=1, keepdims=True)
    labels = rng.integers(5, size=1200)
    values = (centers[labels] + rng.normal(size=(1200, 8))).astype(np.float32)
    path = tmp_path_factory.mktemp("weak") / "weak.npz"
    np.savez(path, features=values, labels=labels)
    return path


@pytest.fixture(scope="module")
def make(weak):
    def config(**alarms) -> RunConfig:
        table = preset("features", str(weak)).table()
        table["data"] |= {"noise": {"kind": "symmetric", "rate": 0.05}, "validation": 0.25}
        for phase, epochs in zip(table["phases"], (2, 20, 2), strict=True):
            phase["epochs"] = epochs
        return RunConfig.of(table | {"alarms": alarms})

    return config


@pytest.fixture(scope="module")
def alarmed(make, tmp_path_factory):
    return train(make(worse_labels="finish"), tmp_path_factory.mktemp("runs") / "alarmed")


def results(run):
    files = [run.path / "model.safetensors", *sorted(run.labels.iterdir())]
    return {file.name: unsealed(file) for file in files}


def test_a_network_that_knows_less_than_its_labels_is_stopped_from_ruining_them(make, alarmed, tmp_path):
    (alarm,) = alarmed.summary["alarms"]
    assert alarm["name"] == "worse_labels"
    assert "the network knows less than the labels" in alarm["words"]
    assert "embeddings of a pretrained network" in alarm["remedy"]
    epochs = read_metrics(alarmed.metrics)
    assert epochs[-1]["phase"] == "finetune"
    given = epochs[0]["labels_correct"]
    assert alarmed.summary["last"]["labels_correct"] > given - 0.02
    ruined = train(make(), tmp_path / "run")
    assert ruined.summary["last"]["labels_correct"] < given - 0.1
    assert [each["name"] for each in ruined.summary["alarms"]] == ["worse_labels"]
    assert {each["action"] for each in ruined.summary["alarms"]} == {"reported only"}


def test_more_changes_than_the_estimate_allows_end_correction_if_asked(make, tmp_path, monkeypatch):
    usual = NoiseSums.noise

    def with_upper_end(self, checks):
        noise = usual(self, checks)
        return replace(noise, rate=replace(noise.rate, high=noise.rate.value + 0.05))

    monkeypatch.setattr(NoiseSums, "noise", with_upper_end)  # one label a row gives none
    run = train(make(changes="finish"), tmp_path / "run")
    (alarm,) = run.summary["alarms"]
    high = json.loads((run.path / "estimates.json").read_text())["rate"]["high"]
    assert alarm["name"] == "changes"
    assert f"at most {100 * high:.1f} % are estimated to be wrong" in alarm["words"]
    assert "labels and network of epoch" in alarm["action"]
    assert run.summary["labels_changed"] <= high * run.summary["examples"]


def test_an_alarm_that_stops_names_the_remedy(make, tmp_path):
    with pytest.raises(AlarmError, match="use better features"):
        train(make(worse_labels="stop"), tmp_path / "run")
    assert not RunDirectory.open(tmp_path / "run").is_finished


def test_the_report_shows_the_alarm_with_action_and_remedy(alarmed):
    text = markdown(gather(alarmed))
    (alarm,) = alarmed.summary["alarms"]
    assert "**Alarm:** Epoch" in text
    assert alarm["action"] in text
    assert escaped(f"Remedy: {alarm['remedy']}") in text


def test_a_run_killed_after_an_alarm_restored_labels_ends_the_same(make, alarmed, tmp_path):
    (tmp_path / "config.toml").write_text(make(worse_labels="finish").toml())
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-c", KILLED, str(tmp_path / "config.toml"), str(tmp_path / "run")]
    assert subprocess.run(words, env=environment, check=False).returncode == -signal.SIGKILL
    lines = read_json_lines(tmp_path / "run" / "metrics.jsonl")
    assert "restored" in lines[-1]
    resumed = resume(tmp_path / "run")
    assert resumed.is_finished
    assert results(resumed) == results(alarmed)
    assert resumed.summary["alarms"] == alarmed.summary["alarms"]
