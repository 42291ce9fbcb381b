"""A tiny grid on points whose truth is known."""

from pathlib import Path

import numpy as np
import pytest

GRID = """
seeds = 2
validation = 0.1

[base]
preset = "features"
data.path = "POINTS"
phases.backbone.epochs = 1
phases.correction.epochs = 8
phases.finetune.epochs = 1
train.batch_size = 30
train.evaluate_every = 4
checkpoint.steps = 60

[[data]]
name = "points"

[[noise]]
name = "symmetric_40"
data.noise = { kind = "symmetric", rate = 0.4 }

[[noise]]
name = "circular_20"
data.noise = { kind = "circular", rate = 0.2 }

[[method]]
name = "cross_entropy"

[[method]]
name = "pencil"
"""


@pytest.fixture(scope="session")
def points(tmp_path_factory) -> Path:
    """600 rows of five well separated classes."""
    rng = np.random.default_rng(0)
    labels = rng.integers(5, size=700)
    values = (4 * np.eye(12)[labels] + rng.normal(size=(700, 12))).astype(np.float32)
    path = tmp_path_factory.mktemp("points") / "points.npz"
    np.savez(path, X=values[:600], y=labels[:600], X_test=values[600:], y_test=labels[600:])
    return path


@pytest.fixture(scope="session")
def grid_file(points, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("grids") / "tiny.toml"
    path.write_text(GRID.replace("POINTS", str(points)))
    return path
