"""The programs of ``.ci``, and a release built by them."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def program():
    """A program of ``.ci`` as a module, by its name; they are no package, and leave no trace."""
    names = ("lock", "licences", "sbom", "covered")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / ".ci"))
        yield importlib.import_module
    for name in names:
        sys.modules.pop(name, None)


@pytest.fixture(scope="session")
def built():
    """Runs a build command in a folder under its own umask, hash seed and time zone, without a date from outside."""

    def build(folder: Path, *words: str, umask: int, seed: int, zone: str) -> None:
        setting = {**os.environ, "PYTHONHASHSEED": str(seed), "TZ": zone}
        setting.pop("SOURCE_DATE_EPOCH", None)
        command = [sys.executable, "-m", *words]
        ran = subprocess.run(
            command, cwd=folder, env=setting, umask=umask, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr

    return build


@pytest.fixture(scope="session")
def dist(built, tmp_path_factory) -> Path:
    """Source archive and wheel of this tree."""
    folder = tmp_path_factory.mktemp("dist")
    words = ("build", "--no-isolation", "--outdir", str(folder), ".")
    built(ROOT, *words, umask=0o022, seed=0, zone="UTC")
    return folder
