"""What a finished run of a grid is measured by."""

import json

import numpy as np
import pytest
import torch

from pencil.bench import Grid
from pencil.bench.measure import MEASURES, OF_LABELS, carry_out, detection
from pencil.results import VERDICTS
from pencil.run import LabelTable, RunDirectory, prepare_examples

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def configs(grid_file):
    cells = Grid.read(grid_file).cells(["noise=symmetric_40"], seeds=1)
    return {cell.method: cell.config for cell in cells}


def test_detection_by_hand():
    wrong = torch.tensor([1, 1, 1, 0, 0, 0], dtype=torch.bool)
    suspected = torch.tensor([1, 0, 0, 1, 0, 0], dtype=torch.bool)
    assert detection(wrong, suspected) == {
        "precision": 1 / 2,
        "recall": 1 / 3,
        "f1": pytest.approx(2 * (1 / 2) * (1 / 3) / (1 / 2 + 1 / 3)),
    }
    nothing = torch.zeros(6, dtype=torch.bool)
    assert detection(nothing, suspected) == {"precision": 0.0, "recall": None, "f1": None}
    assert detection(wrong, nothing) == {"precision": None, "recall": 0.0, "f1": 0.0}


@pytest.mark.parametrize(("method", "detector"), [("pencil", "labels"), ("cross_entropy", "network")])
def test_a_run_is_carried_out_measured_and_trimmed(configs, tmp_path, method, detector):
    config, folder = configs[method], tmp_path / "run"
    found = carry_out(config, folder, keep=False)
    train = prepare_examples(config.data, config.seed).train
    before = float((train.labels.hard == train.reference).double().mean())
    assert found["detector"] == detector
    assert found["labels_before"] == before
    assert found["labels_after"] > 0.9 if method == "pencil" else found["labels_after"] == before
    assert found["f1"] > 0.9
    assert found["auroc"] > 0.95
    assert found["posterior_auroc"] > 0.95
    assert found["posterior_f1"] > 0.9
    assert before < found["posterior_labels_after"] <= 1
    assert found["precision_at_1_percent"] == found["posterior_precision_at_1_percent"] == 1.0
    assert found["calibration_error"] < 0.1
    assert found["forward_passes"] == 10 * len(train) == 10 * found["examples"]
    metrics = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert found["test_last"] == metrics[-1]["test_accuracy"]
    validated = [line for line in metrics if "validation_accuracy" in line]
    assert len(validated) == 5  # every fourth epoch, and the last one of each phase
    best = max(validated, key=lambda line: line["validation_accuracy"])
    assert found["test_best"] == best["test_accuracy"]
    assert not (folder / "checkpoints").exists()
    assert not (folder / "labels").exists()
    assert not (folder / "posterior").exists()
    assert carry_out(config, folder, keep=False) == found


def test_dividemix_on_two_classes_is_no_label_learner(configs, tmp_path):
    """Its rows have as many values as there are classes, but they are losses."""
    values = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    truth = (values[:, 0] > 0).astype(np.int64)
    np.savez(tmp_path / "two.npz", X=values, y=truth, X_test=values[:8], y_test=truth[:8])
    table = configs["pencil"].table()
    table["data"] |= {"path": str(tmp_path / "two.npz")}
    table |= {"method": {"name": "dividemix"}, "model": {"name": "pair", "args": {"name": "linear"}}}
    found = carry_out(type(configs["pencil"]).of(table), tmp_path / "run", keep=False)
    assert found["detector"] == "network"
    assert found["labels_after"] == found["labels_before"]


def test_a_baseline_is_measured_on_the_features_of_texts(configs, tmp_path):
    lines = [f"{'good' if row % 2 else 'bad'} film {row},{row % 2}" for row in range(60)]
    (tmp_path / "texts.csv").write_text("\n".join(["text,label", *lines]))
    table = configs["cross_entropy"].table()
    noise = {"kind": "symmetric", "rate": 0.4}
    table["data"] = {"kind": "text", "path": str(tmp_path / "texts.csv"), "embed": "ngrams", "noise": noise}
    found = carry_out(type(configs["pencil"]).of(table), tmp_path / "run", keep=False)
    assert found["detector"] == "network"
    assert found["auroc"] > 0.5


def assert_ranked_as_in_the_label_table(config, folder, found):
    """By pairs: how often a wrong row comes before a right one."""
    train = prepare_examples(config.data, config.seed).train
    wrong = train.labels.hard != train.reference
    table = LabelTable.open(RunDirectory.open(folder))
    for prefix, chunks in (("", table.learned_chunks()), ("posterior_", table.chunks())):
        distribution = torch.cat([judged.distribution for judged in chunks])
        score = 1 - distribution.gather(1, train.labels.hard[:, None])[:, 0]
        pairs = score[wrong][:, None] - score[~wrong]
        expected = ((pairs > 0).double() + (pairs == 0).double() / 2).mean()
        assert found[f"{prefix}auroc"] == pytest.approx(float(expected), abs=1e-6)
        first = wrong[score.argsort(descending=True)[:100]]
        assert found[f"{prefix}precision_at_100"] == pytest.approx(float(first.double().mean()), abs=0.02)
    right = 0
    for judged in table.chunks():
        rows = zip(judged.given.tolist(), judged.suggested.tolist(), judged.verdict.tolist(), strict=True)
        labels = [
            suggested if VERDICTS[verdict] == "relabel" else given for given, suggested, verdict in rows
        ]
        truth = train.reference[judged.first : judged.first + len(judged)].tolist()
        right += sum(label == true for label, true in zip(labels, truth, strict=True))
    assert found["posterior_labels_after"] == pytest.approx(right / len(train))


def test_kept_a_run_has_its_checkpoints_and_labels_and_can_be_measured_again(configs, tmp_path):
    folder = tmp_path / "run"
    found = carry_out(configs["pencil"], folder, keep=True)
    assert list((folder / "checkpoints").glob("step-*"))
    assert list((folder / "labels").glob("*"))
    assert_ranked_as_in_the_label_table(configs["pencil"], folder, found)
    (folder / MEASURES).unlink()
    assert carry_out(configs["pencil"], folder, keep=True) == found


def test_what_a_process_killed_after_measuring_left_is_removed(configs, tmp_path):
    folder = tmp_path / "run"
    found = carry_out(configs["pencil"], folder, keep=True)
    assert carry_out(configs["pencil"], folder, keep=False) == found
    assert not (folder / "checkpoints").exists()
    assert not (folder / "labels").exists()


def test_without_the_truth_only_accuracies_are_told(configs, tmp_path):
    table = configs["cross_entropy"].table()
    del table["data"]["noise"]
    found = carry_out(type(configs["pencil"]).of(table), tmp_path / "run", keep=False)
    assert {name for name, value in found.items() if value is None} >= set(OF_LABELS)
    assert found["test_last"] > 0.9
