"""One belief about all rows of a run, or a fit by passes if they are very many."""

import csv

import pytest
import torch

from pencil import find_errors
from pencil.belief.answers import FEWEST
from pencil.config import RunConfig
from pencil.presets import preset
from pencil.results import RELABEL
from pencil.run import LabelTable, belief, prepare_examples, train
from support import files

NOISE = {"kind": "symmetric", "rate": 0.3}


def table_of(run):
    table = LabelTable.open(run)
    (judged,) = table.chunks()
    return table.estimates, judged


def verified(folder, rows, places, labels):
    """A table of what some rows are."""
    with (folder / "verified.csv").open("w", newline="", encoding="utf-8") as file:
        lines = ((rows.ids[row], rows.class_names[int(labels[row])]) for row in places)
        csv.writer(file).writerows([("id", "label"), *lines])
    return folder / "verified.csv"


def test_a_run_and_find_errors_believe_the_same(make_config, tmp_path):
    run = train(make_config(data={"noise": NOISE}), tmp_path / "run")
    estimates, judged = table_of(run)
    rows = prepare_examples(run.config.data, run.config.seed).train
    features = rows.inputs.fetch(torch.arange(len(rows)))
    found = find_errors(features.numpy(), rows.labels.hard.numpy())
    torch.testing.assert_close(judged.p_wrong, torch.from_numpy(found.p_wrong), rtol=0, atol=1e-6)
    assert estimates.rate.value == pytest.approx(found.noise.rate, abs=1e-6)
    assert estimates.rate.low == pytest.approx(found.noise.at_least, abs=1e-6)
    assert estimates.rate.high == 1


def test_verified_labels_say_how_far_to_trust_the_others(tmp_path):
    path = files.points(tmp_path / "points.npz", 600, classes=3, dims=5, spread=3, tests=20)
    table = preset("features", str(path)).table()
    table["data"]["noise"] = NOISE
    first = train(RunConfig.of(table), tmp_path / "first")
    rows = prepare_examples(first.config.data, first.config.seed).train
    asked = LabelTable.open(first).ask(2 * FEWEST)
    assert len(asked) == 2 * FEWEST
    found = {}
    for name, labels in (("right", rows.reference), ("as given", rows.labels.hard)):
        table["data"]["trusted"] = {"path": str(verified(tmp_path, rows, asked, labels))}
        with pytest.warns(UserWarning, match="taken for row numbers"):
            again = LabelTable.open(train(RunConfig.of(table), tmp_path / name))
        assert again.answers == {row: int(labels[row]) for row in asked}
        (judged,) = again.chunks()
        assert bool(judged.trusted[asked].all())
        found[name] = int((judged.verdict == RELABEL).sum())
    assert found["as given"] == 0 < 40 < found["right"]


def test_a_posterior_that_knows_the_verified_labels_says_nothing_about_others(
    make_config, tmp_path, monkeypatch
):
    monkeypatch.setattr(belief, "MOST_NUMBERS", 10)
    rows = prepare_examples(make_config(data={"noise": NOISE}).data, 0).train
    path = verified(tmp_path, rows, range(50), torch.zeros(50, dtype=torch.long))
    run = train(make_config(data={"noise": NOISE, "trusted": {"path": str(path)}}), tmp_path / "run")
    assert LabelTable.open(run).answers == {}


def test_very_many_rows_are_fitted_by_passes(make_config, tmp_path, monkeypatch):
    config = make_config(data={"noise": NOISE})
    whole = table_of(train(config, tmp_path / "whole"))
    monkeypatch.setattr(belief, "MOST_NUMBERS", 10)
    monkeypatch.setattr(belief, "believed", None)
    estimates, judged = table_of(train(config, tmp_path / "passes"))
    assert estimates.rate.high < 1
    assert estimates.rate.value == pytest.approx(whole[0].rate.value, abs=0.1)
    assert float((judged.p_wrong - whole[1].p_wrong).abs().mean()) < 0.1
