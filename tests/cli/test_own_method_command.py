"""A toy method from a package of the user's own: command line, config, bench, ranks, kill and resume."""

import json
import os
import signal
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

from pencil import PencilClassifier
from pencil.config import RunConfig
from pencil.identity import unsealed
from support.own_method import FILE, MODULE
from support.ranks import torchrun

pytestmark = pytest.mark.slow

NAME = "toys.toy:Toy"
SETTINGS = (
    *("--epochs", "1,6,1", "--quiet", "--noise", "symmetric:0.3"),
    *("--set", "method.drift=0.4", "--set", "train.batch_size=30", "--set", "checkpoint.steps=2"),
)
RANKS = (*torchrun(2), "-m", "pencil")
GRID = """
[base]
preset = "features"
data.path = "POINTS"
phases.backbone.epochs = 1
phases.correction.epochs = 4
phases.finetune.epochs = 1

[[data]]
name = "points"

[[noise]]
name = "symmetric_40"
data.noise = { kind = "symmetric", rate = 0.4 }

[[method]]
name = "slow"
method.name = "toys.toy:Toy"
method.drift = 0.1

[[method]]
name = "fast"
method.name = "toys.toy:Toy"
method.drift = 0.5
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The folder that holds the package ``toys``."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "toys").mkdir()
    (folder / "toys" / "__init__.py").touch()
    (folder / "toys" / FILE).write_text(MODULE)
    return folder


def python(package, *words, launch=("-m", "pencil"), on_path=False, **environment):
    """A process in the package's folder; ``on_path`` puts that folder on PYTHONPATH as well."""
    found = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    if on_path:
        found["PYTHONPATH"] = os.pathsep.join(filter(None, [str(package), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, *launch, *map(str, words)]
    return subprocess.run(
        command, cwd=package, env=found, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.fixture(scope="module")
def whole(package, points, tmp_path_factory):
    """A run with the toy method, named on the command line and found in the current folder."""
    out = tmp_path_factory.mktemp("runs") / "whole"
    done = python(package, "train", points, "--method", NAME, "--out", out, *SETTINGS)
    assert done.returncode == 0, done.stderr
    return out


def labels_of(run):
    """All tensors of the run's label parts, in the order of the rows."""
    parts = [load_file(path) for path in sorted((run / "labels").iterdir())]
    order = torch.cat([part["row"] for part in parts]).argsort()
    names = ("row", "given", "rows/values")
    return {name: torch.cat([part[name] for part in parts])[order] for name in names}


def test_the_settings_of_a_run_read_back(whole):
    assert '[method]\nname = "toys.toy:Toy"\ndrift = 0.4\n' in (whole / "config.toml").read_text()
    assert RunConfig.read(whole / "config.toml").method.name == NAME
    summary = json.loads((whole / "summary.json").read_text())
    assert summary["method"] == NAME
    assert summary["labels_changed"] > 0


def test_labels_report_and_export_need_no_code(whole, pencil, tmp_path):
    """The package is not on this process's path."""
    for words in (
        ("labels", whole, "--out", tmp_path / "labels.csv"),
        ("report", whole, "--out", tmp_path / "report.html"),
        ("export", whole, "--to", "cleanlab", "--out", tmp_path / "labels.npz"),
        ("evaluate", whole),
    ):
        result = pencil(*words)
        assert result.exit_code == 0, (words, result.output, result.exception)
    assert ",keep," in (tmp_path / "labels.csv").read_text()


def test_a_config_that_names_it_needs_trust_and_gives_the_same_run(whole, package, tmp_path):
    words = ("train", "--config", whole / "config.toml", "--out", tmp_path / "again", "--quiet")
    refused = python(package, *words, on_path=True)
    assert refused.returncode == 2
    assert f"names code to run: method.name = '{NAME}'" in refused.stderr
    assert not (tmp_path / "again").exists()
    done = python(package, *words, "--trust-code", on_path=True)
    assert done.returncode == 0, done.stderr
    assert f"importing {NAME}" in done.stderr
    assert unsealed(tmp_path / "again" / "model.safetensors") == unsealed(whole / "model.safetensors")


def test_killed_and_resumed_it_ends_bit_for_bit_the_same(whole, package, points, tmp_path):
    out = tmp_path / "run"
    killed = python(package, "train", points, "--method", NAME, "--out", out, *SETTINGS, TOY_KILL="3.4")
    assert killed.returncode == -signal.SIGKILL
    assert list((out / "checkpoints").glob("step-*"))
    refused = python(package, "resume", out, on_path=True)
    assert refused.returncode == 2
    assert f"names code to run: method.name = '{NAME}'" in refused.stderr
    done = python(package, "resume", out, "--trust-code", "--quiet", on_path=True)
    assert done.returncode == 0, done.stderr
    assert unsealed(out / "model.safetensors") == unsealed(whole / "model.safetensors")
    for name, value in labels_of(whole).items():
        assert torch.equal(labels_of(out)[name], value), name


def test_two_ranks_learn_the_same_labels(whole, package, points, tmp_path):
    out = tmp_path / "run"
    words = ("train", points, "--method", NAME, "--out", out, *SETTINGS)
    done = python(package, *words, launch=RANKS)
    assert done.returncode == 0, done.stderr
    found, alone = labels_of(out), labels_of(whole)
    assert torch.equal(found["given"], alone["given"])
    assert len(list((out / "labels").iterdir())) == 2
    assert torch.equal(found["rows/values"].argmax(dim=1), alone["rows/values"].argmax(dim=1))
    # Ranks shuffle their own rows, so batches are made of others.
    torch.testing.assert_close(found["rows/values"], alone["rows/values"], rtol=0, atol=0.05)


def test_a_mistake_in_its_settings_is_one_explained_error(package, points, tmp_path):
    out = tmp_path / "run"
    words = ("train", points, "--method", NAME, "--out", out, "--set", "method.drfit=1", "--quiet")
    done = python(package, *words)
    assert done.returncode == 2
    assert "method.drfit: unknown setting; did you mean 'drift'?" in done.stderr
    assert "Traceback" not in done.stderr
    assert not out.exists()


def test_the_bench_compares_its_settings(package, points, tmp_path):
    grid, out = tmp_path / "grid.toml", tmp_path / "bench"
    grid.write_text(GRID.replace("POINTS", str(points)))
    words = ("bench", grid, "--out", out, "--jobs", "1", "--quiet")
    refused = python(package, *words, on_path=True)
    assert refused.returncode == 2
    assert f"names code to run: method.name = '{NAME}'" in refused.stderr
    done = python(package, *words, "--trust-code", on_path=True)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    assert [line["method"] for line in lines] == ["slow", "fast"]
    assert {line["detector"] for line in lines} == {"labels"}
    assert lines[0]["labels_after"] != lines[1]["labels_after"]
    grid.write_text(GRID.replace("POINTS", str(points)).replace("method.drift = 0.1", "method.drfit = 0.1"))
    wrong = python(package, *words, "--trust-code", on_path=True)
    assert wrong.returncode == 2
    assert "method.drfit: unknown setting; did you mean 'drift'?" in wrong.stderr


def test_the_estimator_takes_an_object(package, monkeypatch):
    monkeypatch.syspath_prepend(str(package))
    from toys.toy import Toy

    labels = torch.arange(240) % 3
    noise = torch.randn(240, 3, generator=torch.Generator().manual_seed(0))
    values, labels = (4 * torch.eye(3)[labels] + noise).numpy(), labels.numpy()
    wrong = labels.copy()
    wrong[:24] = (wrong[:24] + 1) % 3
    classifier = PencilClassifier(method=Toy(drift=0.5), epochs=(5, 20, 1), random_state=0)
    classifier.fit(values, wrong)
    assert (classifier.corrected_labels_ == labels).mean() > (wrong == labels).mean()
    for name in [name for name in sys.modules if name.partition(".")[0] == "toys"]:
        del sys.modules[name]
