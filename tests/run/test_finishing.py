"""What a finished run leaves in its folder, and how it is written again."""

import json
import warnings

import pytest
import torch

from pencil.run import LabelTable, resume, train

LABELS = "labels/00000-00000.safetensors"
FILES = (
    *("config.toml", "environment.json", "metrics.jsonl", "summary.json"),
    *(LABELS, "model.safetensors", "model.json"),
)


def distributions(directory):
    return torch.cat([part.distribution for part in LabelTable.open(directory).learned_chunks()])


def test_a_run_leaves_what_it_promises(finished):
    assert all((finished.path / name).is_file() for name in FILES)
    summary = finished.summary
    assert summary["method"] == "pencil"
    assert summary["examples"] == 96
    assert summary["last"]["epoch"] == 16
    assert summary["best"]["validation_accuracy"] == max(
        json.loads(line)["validation_accuracy"]
        for line in (finished.path / "metrics.jsonl").read_text().splitlines()
    )


def test_lost_results_are_written_again_from_the_last_checkpoint(make_config, tmp_path):
    directory = train(make_config(), tmp_path)
    before = {name: (tmp_path / name).read_bytes() for name in ("model.safetensors", LABELS)}
    for name in (*before, "summary.json"):
        (tmp_path / name).unlink()
    resume(tmp_path)
    assert directory.is_finished
    assert {name: (tmp_path / name).read_bytes() for name in before} == before


@pytest.mark.parametrize("metrics", [None, "", "{broken\n"])
def test_lost_metrics_do_not_wedge_a_run(make_config, tmp_path, metrics):
    directory = train(make_config(), tmp_path / "run")
    before, changed = distributions(directory), directory.summary["labels_changed"]
    directory.metrics.unlink()
    if metrics is not None:
        directory.metrics.write_text(metrics)
    (directory.path / "summary.json").unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = resume(directory.path)
    assert again.summary["labels_changed"] == changed
    assert again.summary["alarms"][-1]["words"].startswith("the metrics of all epochs are lost")
    assert torch.equal(distributions(again), before)
