"""Batches for the tests of methods."""

import pytest
import torch

from support import naive

HARD = torch.tensor([0, 2, 1, 2, 0])
SOFT = torch.tensor(
    [[0.7, 0.2, 0.1], [0.0, 0.0, 1.0], [0.2, 0.6, 0.2], [0.3, 0.3, 0.4], [1.0, 0.0, 0.0]], dtype=torch.float64
)


@pytest.fixture(scope="session")
def moment():
    return naive.moment


@pytest.fixture(scope="session")
def softmax():
    return naive.softmax


@pytest.fixture(scope="session")
def as_lists():
    return naive.as_lists


@pytest.fixture
def logits():
    """(5, 3) float64, with a graph."""
    values = 2 * torch.randn(5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return values.requires_grad_()


@pytest.fixture(params=[HARD, SOFT], ids=["hard", "soft"])
def given(request):
    """ŷ of five examples of three classes."""
    return request.param
