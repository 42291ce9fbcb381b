"""Points in clusters with labels of which some are wrong."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray


@dataclass(frozen=True)
class Points:
    """Well separated points (N, D), their noisy and their true labels (N,), and as many to test on."""

    values: NDArray
    noisy: NDArray
    true: NDArray
    test_values: NDArray
    test_true: NDArray


@pytest.fixture(scope="session")
def points() -> Points:
    rng = np.random.default_rng(0)
    names = np.array(["ant", "bee", "cow", "żubr"])
    numbers = rng.integers(4, size=400)
    values = 4 * np.eye(8)[numbers] + rng.normal(size=(400, 8))
    other = names[(numbers + rng.integers(1, 4, size=400)) % 4]
    noisy = np.where(rng.random(400) < 0.3, other, names[numbers])
    true = names[numbers]
    return Points(values[:200], noisy[:200], true[:200], values[200:], true[200:])
