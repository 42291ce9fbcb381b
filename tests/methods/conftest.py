"""Batches, moments and naive softmax for the methods' tests."""

import math

import pytest
import torch

from pencil.algorithm import Moment, Phase

HARD = torch.tensor([0, 2, 1, 2, 0])
SOFT = torch.tensor(
    [[0.7, 0.2, 0.1], [0.0, 0.0, 1.0], [0.2, 0.6, 0.2], [0.3, 0.3, 0.4], [1.0, 0.0, 0.0]], dtype=torch.float64
)


def _moment(name="correction", elapsed=0.0, epochs=10, **shared):
    return Moment(Phase(name=name, epochs=epochs, learning_rate=0.1), elapsed, shared)


def _softmax(row):
    """Of a list of numbers, in plain Python."""
    powers = [math.exp(value) for value in row]
    return [power / sum(powers) for power in powers]


def _as_lists(given, classes=3):
    """ŷ as lists of probabilities."""
    if given.dim() == 2:
        return given.tolist()
    return [[float(j == label) for j in range(classes)] for label in given.tolist()]


@pytest.fixture(scope="session")
def moment():
    return _moment


@pytest.fixture(scope="session")
def softmax():
    return _softmax


@pytest.fixture(scope="session")
def as_lists():
    return _as_lists


@pytest.fixture
def logits():
    """(5, 3) float64, with a graph."""
    values = 2 * torch.randn(5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return values.requires_grad_()


@pytest.fixture(params=[HARD, SOFT], ids=["hard", "soft"])
def given(request):
    """ŷ of five examples of three classes."""
    return request.param
