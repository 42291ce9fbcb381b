"""Where a run was made, in plain values."""

import builtins
import json
import sys

import torch

from pencil import __version__
from pencil.results import describe_environment
from pencil.results.environment import _processor, _version


def test_versions_machine_and_command_are_told(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["pencil", "train", "żółć.npz"])
    environment = json.loads(json.dumps(describe_environment()))
    assert environment["pencil"] == __version__
    assert environment["packages"]["torch"].split("+")[0] == torch.__version__.split("+")[0]
    assert environment["command"] == ["pencil", "train", "żółć.npz"]
    assert environment["cores"] >= 1
    assert environment["python"] == ".".join(map(str, sys.version_info[:3]))
    assert len(environment["gpus"]) == torch.cuda.device_count()


def test_a_package_that_is_not_installed_has_no_version():
    assert _version("no-such-package") is None


def test_a_machine_without_a_list_of_processors(monkeypatch):
    def missing(*_):
        raise OSError

    monkeypatch.setattr(builtins, "open", missing)
    assert isinstance(_processor(), str)
