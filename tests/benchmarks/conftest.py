"""Benchmarks as modules."""

import pytest

from support import machine


@pytest.fixture(scope="session")
def imported():
    """A context in which a benchmark is imported by its name."""
    return machine.imported
