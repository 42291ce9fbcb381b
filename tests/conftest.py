"""Fixtures for every test; what they hand out is in ``tests/support``."""

import pytest

from support import machine, training


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
