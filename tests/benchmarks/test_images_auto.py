"""The recorded runs of plan = "auto" on images: figures as documented, and the docs show what was recorded."""

from pathlib import Path

import numpy as np
import pytest

from pencil.config import RunConfig
from pencil.presets import preset
from pencil.run import train

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def images(imported):
    with imported("images_auto") as module:
        yield module


@pytest.fixture(scope="module")
def told(imported):
    with imported("images_auto_tables") as module:
        yield module


def epoch(phase, validation, test, labels):
    return {
        "phase": phase,
        "validation_accuracy": validation,
        "test_accuracy": test,
        "labels_correct": labels,
    }


def run(*, examples=45_000, seed=0, rate=0.5, last=0.8, method="pencil", plan="auto", plain=18):
    epochs = [
        epoch("backbone", 0.4, 0.7, 0.55),
        *[epoch("backbone", 0.3, 0.75, 0.55)] * (plain - 1),
        epoch("correction", 0.4, 0.76, 0.6),
        epoch("finetune", 0.4, 0.77, 0.7),
        epoch("correction", 0.4, 0.78, 0.75),
        epoch("finetune", 0.2, last, 0.85),
    ]
    noise = {"kind": "symmetric", "rate": rate}
    about = {"noise": noise, "examples": examples, "seed": seed, "method": method, "plan": plan}
    about["handed_out"] = {"suggested_right": 0.88, "relabelled_right": 0.66}
    numbered = [each | {"epoch": at} for at, each in enumerate(epochs, 1)]
    return about | {"plain": [each for each in numbered if each["phase"] == "backbone"], "epochs": numbered}


def memorised():
    """A run that has gone back to its second epoch and has corrected from there."""
    found = run(plain=50)
    first, *others = found["epochs"]
    kept = [first, *others[:1], *(each for each in others if each["phase"] != "backbone")]
    return found | {"epochs": [each | {"epoch": at} for at, each in enumerate(kept, 1)]}


def test_cross_entropy_is_the_epoch_before_correction_that_agrees_best(told):
    assert told.measures(run()) == {
        "cross_entropy": 70.0,
        "cross_entropy_last": 75.0,
        "auto": 80.0,
        "labels_before": 55.0,
        "labels_after": 85.0,
        "suggested": 88.0,
        "relabelled": 66.0,
    }


def test_symmetric_50_is_the_mean_over_seeds_of_the_largest_data(told):
    runs = [
        *(run(), run(seed=1, last=0.9)),
        *(run(examples=9000, last=0.1), run(rate=0.2, last=0.1), run(last=0.1, plan="fixed")),
    ]
    assert told.at_symmetric_50(runs) == {
        "images_auto_sym50": 85.0,
        "images_cross_entropy_sym50_best": 70.0,
        "images_right_labels_sym50": 85.0,
    }
    assert told.at_symmetric_50([]) == {}


def test_the_table_counts_rounds(told):
    assert told.table([run()]).splitlines()[-1] == (
        "| symmetric 50 % | 0 | 70.0 | 75.0 | 80.0 | 55.0 | 85.0 | 88.0 | 66.0 | 2 |"
    )


def test_there_is_a_table_for_each_number_of_images_one_of_means_and_one_of_other_methods(told):
    text = told.tables([run(examples=9000), run(), run(method="early_learning", plan="fixed")])
    heads = [line.removeprefix("### ") for line in text.splitlines() if line.startswith("#")]
    assert heads == ["45,000 training images", "9,000 training images", "Means over seeds", "Other methods"]
    assert text.count("| symmetric 50 % | 0 |") == 2


def test_means_are_those_of_noises_with_several_seeds(told):
    runs = [run(rate=0.2), run(examples=9000), *(run(seed=seed, last=0.8 + seed / 10) for seed in (0, 1))]
    assert told.means_table([*runs, memorised()]).splitlines()[2:] == [
        "| symmetric 50 % | 45,000 | 2 | 70.0 ± 0.0 | 75.0 ± 0.0 | 85.0 ± 7.1 | 15.0 ± 7.1 "
        "| 85.0 ± 0.0 | 88.0 ± 0.0 |"
    ]


def test_runs_of_one_noise_are_together(told):
    runs = [
        run(seed=seed) | {"noise": {"kind": "file", "key": key}}
        for seed in (1, 0)
        for key in ("worse", "aggre")
    ]
    ordered = sorted([*runs, run(seed=2)], key=told.order_of)
    assert [(told.noise_of(each), each["seed"]) for each in ordered] == [
        ("symmetric 50 %", 2),
        *(("people, aggre", 0), ("people, aggre", 1), ("people, worse", 0), ("people, worse", 1)),
    ]


def test_a_noise_is_named_by_its_kind_and_rate_or_its_labels(told):
    people = run() | {"noise": {"kind": "file", "key": "worse_label", "path": None}}
    mapped = run() | {"noise": {"kind": "cifar10", "rate": 0.4}}
    assert [told.noise_of(each) for each in (run(), mapped, people)] == [
        "symmetric 50 %",
        "asymmetric 40 %",
        "people, worse_label",
    ]
    assert told.name_of(people) == "people_worse_label_45000_0"
    assert told.name_of(run(plain=50)) == "symmetric_50_45000_0_after_50"
    assert told.name_of(run(method="early_learning", plan="fixed")) == "symmetric_50_45000_0_early_learning"


def test_another_method_is_shown_beside_auto(told):
    lines = [run(), run(method="early_learning", plan="fixed", last=0.6)]
    lines[1]["epochs"][-1]["labels_changed"] = 3
    assert told.methods_table(lines).splitlines()[2:] == [
        "| symmetric 50 % | 45,000 | 0 | early learning | 70.0 | 60.0 | 85.0 | 80.0 |"
    ]
    assert len(told.table(lines).splitlines()) == 3


def test_what_is_handed_out_is_compared_with_the_truth(images, tmp_path):
    generator = np.random.default_rng(0)
    labels = np.arange(300) % 3
    features = generator.normal(size=(300, 4)) + 6 * np.eye(3, 4)[labels]
    np.savez(tmp_path / "data.npz", features=features.astype(np.float32), labels=labels)
    table = preset("features", str(tmp_path / "data.npz")).table()
    table["data"]["noise"] = {"kind": "symmetric", "rate": 0.3}
    found = images.handed_out(train(RunConfig.of(table), tmp_path / "run"))
    assert found["suggested_right"] > 0.95
    assert 0.8 < found["relabelled_right"] <= 1
    assert found["wrong_estimated"] == pytest.approx(0.2, abs=0.1)
    assert found["source"] == "inputs"


def test_the_runs_are_drawn(images, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(images, "FIGURE", tmp_path / "runs.png")
    monkeypatch.setattr(images, "MEMORISED", tmp_path / "run.png")
    images.draw([run(examples=9000), run(), run(seed=1), run(plain=50)])
    assert (tmp_path / "runs.png").stat().st_size > 1000
    assert not (tmp_path / "run.png").exists()
    images.draw([run(), memorised()])
    assert (tmp_path / "run.png").stat().st_size > 1000


def test_a_network_that_memorised_is_told_with_its_last_epoch(told):
    assert told.has_memorised(memorised())
    assert not told.has_memorised(run())
    assert told.measures(memorised())["cross_entropy_last"] == 75.0
    assert told.name_of(memorised()) == "symmetric_50_45000_0_after_50"


def test_recorded_runs_are_written_to_the_page(images, told, tmp_path, monkeypatch):
    monkeypatch.setattr(images, "RECORDED", tmp_path / "runs.jsonl")
    monkeypatch.setattr(images, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(images, "line_of", lambda seed: run(seed=seed))
    monkeypatch.setattr(images, "draw", lambda runs: None)
    images.PAGE.write_text(f"before\n\n{images.between_marks('', 'old')}\n\nafter\n", encoding="utf-8")
    images.RECORDED.write_text("", encoding="utf-8")
    images.record([1, 2])
    page = images.PAGE.read_text(encoding="utf-8")
    assert page.startswith("before")
    assert page.endswith("after\n")
    assert told.table([run(seed=1), run(seed=2)]) in page
    assert "old" not in page


def test_the_docs_show_the_recorded_runs(images, told):
    runs = images.recorded()
    assert runs
    page = images.PAGE.read_text(encoding="utf-8")
    assert images.between_marks(page, told.tables(runs)) == page
