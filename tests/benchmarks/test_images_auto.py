"""The recorded runs of plan = "auto" on images: figures as documented, and the docs show what was recorded."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def images(imported):
    with imported("images_auto") as module:
        yield module


def epoch(phase, validation, test, labels):
    return {
        "phase": phase,
        "validation_accuracy": validation,
        "test_accuracy": test,
        "labels_correct": labels,
    }


def run(*, examples=45_000, seed=0, rate=0.5, last=0.8):
    epochs = [
        epoch("backbone", 0.4, 0.7, 0.55),
        epoch("backbone", 0.3, 0.75, 0.55),
        epoch("correction", 0.4, 0.76, 0.6),
        epoch("finetune", 0.4, 0.77, 0.7),
        epoch("correction", 0.4, 0.78, 0.75),
        epoch("finetune", 0.2, last, 0.85),
    ]
    noise = {"kind": "symmetric", "rate": rate}
    return {"noise": noise, "examples": examples, "seed": seed, "epochs": epochs}


def test_cross_entropy_is_the_epoch_before_correction_that_agrees_best(images):
    assert images.measures(run()) == {
        "cross_entropy": 70.0,
        "auto": 80.0,
        "labels_before": 55.0,
        "labels_after": 85.0,
    }


def test_symmetric_50_is_the_mean_over_seeds_of_the_largest_data(images):
    runs = [
        *(run(), run(seed=1, last=0.9)),
        *(run(examples=9000, last=0.1), run(rate=0.2, last=0.1)),
    ]
    assert images.at_symmetric_50(runs) == {
        "images_auto_sym50": 85.0,
        "images_cross_entropy_sym50_best": 70.0,
        "images_right_labels_sym50": 85.0,
    }
    assert images.at_symmetric_50([]) == {}


def test_the_table_counts_rounds(images):
    assert images.table([run()]).splitlines()[-1] == (
        "| symmetric 50 % | 45,000 | 0 | 70.0 | 80.0 | 55.0 → 85.0 | 2 |"
    )


def test_the_docs_show_the_recorded_runs(images):
    runs = images.recorded()
    assert runs
    assert images.table(runs) in (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
