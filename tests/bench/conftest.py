"""A tiny grid on points whose truth is known."""

from pathlib import Path

import pytest

from support import files

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
    path = tmp_path_factory.mktemp("points") / "points.npz"
    return files.points(path, 600, classes=5, dims=12, spread=4, tests=100)


@pytest.fixture(scope="session")
def grid_file(points, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("grids") / "tiny.toml"
    path.write_text(GRID.replace("POINTS", str(points)))
    return path
