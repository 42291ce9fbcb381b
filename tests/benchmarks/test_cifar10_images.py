"""The committed runs on CIFAR-10 images are those of the grid, and the docs show what they say."""

from pathlib import Path

import pytest

from pencil.bench import Grid

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def images(imported):
    with imported("cifar10_images") as module:
        yield module


@pytest.fixture(scope="module")
def runs(images):
    return images.read_json_lines(images.RECORDED)


def test_every_run_of_both_parts_is_there_with_the_grids_settings(images, runs, monkeypatch):
    monkeypatch.setenv("CIFAR10", "anywhere")
    grid = Grid.read(images.GRID)
    wanted = {cell.key[1:]: cell.config_hash for part in images.PARTS for cell in grid.cells(part)}
    names = ("noise", "method", "variant", "seed")
    assert {tuple(run[name] for name in names): run["config_hash"] for run in runs} == wanted
    assert len(runs) == len(wanted) == 11


def test_the_best_epoch_is_the_best_on_noisy_validation_and_not_on_the_test_set(images):
    epochs = [
        {"validation_accuracy": 0.4, "test_accuracy": 0.6},
        {"validation_accuracy": 0.3, "test_accuracy": 0.9},
        {"validation_accuracy": 0.2, "test_accuracy": 0.7},
    ]
    run = {"noise": "n", "method": "m", "variant": "default", "labels_before": 0.5, "labels_after": 0.8}
    told = images.figures([{**run, "epochs": epochs}])
    assert told == {"n_m_best": 60.0, "n_m_last": 70.0, "n_m_labels_before": 50.0, "n_m_labels_after": 80.0}


def test_the_docs_show_the_committed_runs(images, runs):
    assert images.table(runs) in (ROOT / "docs" / "images.md").read_text(encoding="utf-8")


def test_the_figures_are_drawn(images, runs, tmp_path):
    pytest.importorskip("matplotlib")
    for draw in (images.draw_accuracy, images.draw_labels):
        draw(runs, tmp_path / f"{draw.__name__}.png")
        assert (tmp_path / f"{draw.__name__}.png").read_bytes().startswith(b"\x89PNG")
