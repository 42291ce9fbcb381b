"""cleanlab beside the grid's methods: the same rows, every row out of fold once, the whole cost counted."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from pencil.bench import read_results, tabulate

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
GRID = """
validation = 0.1
[base]
preset = "features"
train.batch_size = 20
phases = [{ name = "backbone", epochs = 4, learning_rate = 0.1 }]
[[data]]
name = "points"
data.path = "POINTS"
[[noise]]
name = "some"
data.noise = { kind = "symmetric", rate = 0.3 }
[[method]]
name = "cross_entropy"
"""


@pytest.fixture(scope="module")
def peers(imported):
    with imported("peers_cleanlab") as module:
        yield module


@pytest.fixture
def grid(tmp_path):
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=300)
    values = (5 * np.eye(8)[labels] + rng.normal(size=(300, 8))).astype(np.float32)
    path = tmp_path / "points.npz"
    np.savez(path, train=values[:200], train_labels=labels[:200], test=values[200:], test_labels=labels[200:])
    (tmp_path / "grid.toml").write_text(GRID.replace("POINTS", str(path)))
    return tmp_path / "grid.toml"


def test_folds_hold_out_every_row_once(peers):
    folds = [peers.held_out(23, 7, number) for number in range(peers.FOLDS)]
    assert torch.cat(folds).sort().values.tolist() == list(range(23))


def test_a_fold_trains_on_the_rest_of_the_rows_that_the_grid_trains_on(peers, grid):
    whole = peers.prepared(grid, "points", "some", 0).train
    fold = peers.fold(str(grid), "points", "some", 0, number=2)
    assert len(whole) == 180
    assert sorted([*fold.train.ids, *fold.test.ids]) == sorted(whole.ids)
    assert len(fold.test) == 36


def test_errors_are_found_and_all_trainings_counted(peers, grid):
    pytest.importorskip("cleanlab")
    line = peers.measured(grid, "points", "some", 0)
    assert line["f1"] > 0.8
    assert line["auroc"] > 0.9
    assert line["average_precision"] > 0.8
    (grid.parent / "results.jsonl").write_text(json.dumps(line) + "\n")
    assert "| cleanlab |" in tabulate(read_results(grid.parent), ["auroc", "precision_at_100"])
    assert line["test_last"] > 0.9
    kept = (
        line["forward_passes"] - 180 - 4 * 4 * 180
    )  # five folds of four fifths, four epochs; one prediction each
    assert kept % 4 == 0
    assert 100 < kept // 4 < 180
