"""Fixtures for every test; what they hand out is in ``tests/support``."""

import os
import re

import pytest
from hypothesis import settings

from support import machine, training

os.environ["HF_HUB_OFFLINE"] = "1"  # inherited by every process that a test starts
os.environ["PENCIL_EMBED"] = "none"  # whatever is installed; tests of the default remove it

settings.register_profile("without_deadline", deadline=None)  # a busy machine is no failure
settings.load_profile("without_deadline")

WHOLE_MODULE = re.compile(r"^pytestmark = \[?\s*pytest\.mark\.(\w+)", re.MULTILINE)


def pytest_ignore_collect(collection_path, config):
    """Modules that ``-m "not slow"`` leaves out whole are not imported either: together that takes half a minute."""
    if collection_path.suffix == ".py" and "not " in config.option.markexpr:
        mark = WHOLE_MODULE.search(collection_path.read_text(encoding="utf-8"))
        return True if mark and f"not {mark[1]}" in config.option.markexpr else None
    return None


@pytest.fixture(scope="session")
def points():
    return training.make_points()


@pytest.fixture(scope="session")
def blobs():
    return training.make_blobs()


@pytest.fixture(scope="session")
def images():
    return training.make_images()


@pytest.fixture(scope="session")
def make_training():
    return training.make_training


@pytest.fixture(scope="session")
def carry_on():
    return training.carry_on


@pytest.fixture(scope="session")
def without_seconds():
    return training.without_seconds


@pytest.fixture(scope="session")
def limited():
    return machine.limited
