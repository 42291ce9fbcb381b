"""Trainings for other trainers."""

import pytest

from support.beside import Trainings


@pytest.fixture(scope="session")
def make_parts(blobs):
    return Trainings(blobs.train).make
