import pytest

from support import files


@pytest.fixture
def points(tmp_path):
    """Features of 90 rows with labels."""
    return files.points(tmp_path / "points.npz", 90, classes=3, dims=5, tests=20)
