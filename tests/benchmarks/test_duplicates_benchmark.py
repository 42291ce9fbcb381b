"""The benchmark of near-identical rows, on small features in the layout of CUB's."""

import numpy as np
import pytest


@pytest.fixture(scope="module")
def duplicates(imported):
    with imported("duplicates") as module:
        yield module


@pytest.fixture
def features(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.arange(900) % 6
    values = 2 * rng.normal(size=(6, 20))[labels] + rng.normal(size=(900, 20))
    path = tmp_path / "features.npz"
    np.savez(path, feat=values.astype(np.float16), labels=labels, is_train=np.arange(900) < 700)
    return path


def test_copies_come_last_with_another_label(duplicates, features, tmp_path):
    originals = duplicates.plant(features, tmp_path / "out.npz", 0.1, 3, None)
    with np.load(tmp_path / "out.npz") as data:
        values, labels = data["X"], data["y"]
        assert (len(values), len(data["X_test"])) == (707, 200)
    assert len(originals) == 7
    assert (labels[700:] != labels[originals]).all()
    apart = np.abs(values[700:] - values[originals]) / values[:700].std(0)
    assert 0.05 < apart.mean() < 0.12


def test_near_copies_are_found_and_far_ones_are_not(duplicates, features):
    near = duplicates.measured(features, 0.01, 0, quick=False)
    assert (near.planted, near.found, near.others) == (7, 7, 0)
    assert duplicates.measured(features, 3.0, 0, quick=False).found == 0


def test_the_quick_figures_name_the_share_that_was_found(duplicates, features):
    found = duplicates.figures(features, quick=True)
    assert set(found) == {"duplicates_found_percent", "duplicates_others"}


def test_generated_copies_are_found_among_all_rows(duplicates):
    found = duplicates.compared(3000, 64)
    assert (found["rows"], found["features"], found["planted"]) == (3000, 64, 3)
    assert (found["found_percent"], found["others"]) == (100.0, 0)
    assert found["nearest_found_percent"] == 100.0  # this many rows are compared exactly


def test_generated_copies_come_last_and_are_near_their_originals(duplicates):
    values, originals = duplicates.generated(2000, 8)
    apart = (values[-len(originals) :] - values[originals]).abs() / values.std(0)
    assert len(originals) == 2
    assert 0.03 < float(apart.mean()) < 0.2
