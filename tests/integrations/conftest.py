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


@pytest.fixture(scope="session")
def run(points, tmp_path_factory):
    """A finished run on the points, whose rows have names."""
    from pencil.presets import preset
    from pencil.run import train

    folder = tmp_path_factory.mktemp("handover")
    names, numbers = np.unique(points.noisy, return_inverse=True)
    ids = np.array([f"images/ż {number}.png" for number in range(len(numbers))])
    np.savez(folder / "points.npz", X=points.values, y=numbers, names=names, ids=ids)
    config = preset("features", str(folder / "points.npz"))
    return train(
        config.model_copy(update={"train": config.train.model_copy(update={"batch_size": 20})}),
        folder / "run",
    )


@pytest.fixture(scope="session")
def rows(run):
    """What the run believes, one by one."""
    from pencil.integrations.rows import label_rows
    from pencil.run import learned_labels

    return list(label_rows(*learned_labels(run)))
