"""Tiny data, the command in this process, and one finished run."""

import inspect
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from pencil.cli import main
from pencil.cli.main import cli
from support import audits, files

# click 8.1 mixes stdout and stderr unless it is asked not to; 8.2 never does
SEPARATE = {"mix_stderr": False} if "mix_stderr" in inspect.signature(CliRunner).parameters else {}
QUICK = ("--epochs", "1,6,1", "--quiet")


def _pencil(*words) -> Result:
    """The command without ``main``: a mistake stays an exception."""
    return CliRunner(**SEPARATE).invoke(cli, [str(word) for word in words])


@pytest.fixture(scope="session")
def points(tmp_path_factory) -> Path:
    names, ids = np.array(["cat, big", "żółć", "cow"]), np.array([f"row\n{number}" for number in range(90)])
    path = tmp_path_factory.mktemp("some data") / "points.npz"
    return files.points(path, 90, classes=3, dims=5, tests=20, names=names, ids=ids)


@pytest.fixture(scope="session")
def pencil():
    return _pencil


@pytest.fixture(scope="session")
def finished(points, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "my run"
    result = _pencil("train", points, "--out", out, "--noise", "symmetric:0.3", *QUICK)
    assert result.exit_code == 0, result.output
    return out


@pytest.fixture
def main_program(monkeypatch, capsys):
    """``main`` as the console calls it: exit code, stdout, stderr."""

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["pencil", *map(str, words)])
        monkeypatch.setattr(sys, "path", [*sys.path])
        monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
        try:
            main()
        except SystemExit as stop:
            code = stop.code
        else:
            code = 0
        told = capsys.readouterr()
        return code, told.out, told.err

    return call


@pytest.fixture(scope="session")
def trained(tmp_path_factory) -> Path:
    """A run whose truth is known."""
    return audits.trained_run(tmp_path_factory.mktemp("audited"))


@pytest.fixture
def run(trained, tmp_path) -> Path:
    """A copy of it to ask about."""
    return audits.copied(trained, tmp_path / "run")


@pytest.fixture
def right(trained):
    """The answer to a line of a sheet."""
    truth = np.load(trained.parent / "truth.npy")
    return lambda line: audits.NAMES[truth[int(line["id"])]]
