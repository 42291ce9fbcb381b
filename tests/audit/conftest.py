"""A small trained run, its true labels, and an auditor who knows them."""

import numpy as np
import pytest

from pencil.audit import FrozenLabels
from pencil.run import LabelTable, RunDirectory
from support import audits


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    return audits.trained_run(tmp_path_factory.mktemp("audited"))


@pytest.fixture
def run(trained, tmp_path):
    """A copy of the run that a test may write to."""
    return RunDirectory.open(audits.copied(trained, tmp_path / "run"))


@pytest.fixture(scope="session")
def truth(trained):
    return np.load(trained.parent / "truth.npy")


@pytest.fixture
def labels(run):
    return FrozenLabels.of(LabelTable.open(run))
