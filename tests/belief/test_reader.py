"""Rows that a belief was not found from are read as those that it was."""

import numpy as np
import pytest
import torch
from test_believe import CLASSES, clusters, precision

from pencil.belief import believe_and_read

ROWS, FOUND = 2000, 1200


@pytest.fixture(scope="module")
def problem():
    return clusters(rows=ROWS, seed=3)


@pytest.fixture(scope="module")
def reader(problem):
    with torch.no_grad():
        return believe_and_read(problem.x[:FOUND], problem.given[:FOUND], CLASSES)[1]


def unverified(rows):
    return torch.zeros(rows, dtype=torch.bool)


def test_they_are_as_right_and_as_sure(problem, reader):
    x, truth, given = problem.x[FOUND:], problem.truth[FOUND:], problem.given[FOUND:]
    found = reader(x, given, unverified(len(x)))
    assert torch.allclose(found.posterior.sum(1), torch.ones(len(x)), atol=1e-4)
    p_wrong = 1 - found.posterior.gather(1, given[:, None])[:, 0]
    assert precision(p_wrong, given != truth) > 0.9
    assert float(p_wrong.mean()) == pytest.approx(float((given != truth).float().mean()), abs=0.03)
    assert float((found.likeliest == truth).float().mean()) > 0.9


def test_rows_of_the_belief_are_read_nearly_as_they_were(problem, reader):
    with torch.no_grad():
        belief = believe_and_read(problem.x[:FOUND], problem.given[:FOUND], CLASSES)[0]
    found = reader(problem.x[:FOUND], problem.given[:FOUND], unverified(FOUND))
    assert float((found.likeliest == belief.likeliest).float().mean()) > 0.97


def test_verified_labels_stand_and_rows_without_a_label_get_one(problem, reader):
    x, truth, given = problem.x[FOUND:], problem.truth[FOUND:], problem.given[FOUND:].clone()
    sure = torch.arange(len(x)) % 5 == 0
    given[1::5] = -1
    found = reader(x, given, sure)
    assert torch.equal(found.likeliest[sure], given[sure])
    assert float(found.posterior[sure].gather(1, given[sure, None]).min()) > 0.99
    assert float((found.likeliest[1::5] == truth[1::5]).float().mean()) > 0.9
    for size in (0, 1):
        assert len(reader(x[:size], given[:size], sure[:size]).posterior) == size


def test_a_class_that_was_hardly_seen_is_not_doubted(problem):
    given = problem.given.clone()
    given[FOUND:] = torch.where(torch.arange(ROWS - FOUND) % 9 == 0, CLASSES, given[FOUND:])
    with torch.no_grad():
        reader = believe_and_read(problem.x[:FOUND], given[:FOUND], CLASSES + 1)[1]
    found = reader(problem.x[FOUND:], given[FOUND:], unverified(ROWS - FOUND))
    rare = given[FOUND:] == CLASSES
    right = found.posterior[rare, CLASSES]
    assert np.allclose(right, float(right[0]))
    assert float(right[0]) > 0.5
