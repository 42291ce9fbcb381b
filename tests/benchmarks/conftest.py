"""The benchmarks are programs, not a package: a test module imports the one it is about, and leaves no trace of it."""

import contextlib
import importlib
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@contextlib.contextmanager
def _imported(name):
    sys.path.insert(0, str(BENCHMARKS))
    try:
        yield importlib.import_module(name)
    finally:
        sys.path.remove(str(BENCHMARKS))
        for module in [
            loaded for loaded in sys.modules if loaded.partition(".")[0] in (name, "common", "faults")
        ]:
            del sys.modules[module]


@pytest.fixture(scope="session")
def imported():
    """A context in which a benchmark is imported by its name."""
    return _imported
