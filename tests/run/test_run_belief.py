"""One belief about all rows of a run, also if they are very many."""

import csv

import pytest
import torch

from pencil import find_errors
from pencil.belief.answers import FEWEST
from pencil.config import RunConfig
from pencil.presets import preset
from pencil.results import RELABEL
from pencil.run import LabelTable, prepare_examples, train
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


def few_rows_are_enough(monkeypatch):
    """A belief is found from at most 300 rows."""
    monkeypatch.setattr("pencil.belief.find.MOST_NUMBERS", 300 * 8)
    monkeypatch.setattr("pencil.belief.find.MOST_ROWS", 300)


def test_very_many_rows_are_read_by_a_belief_about_some(tmp_path, monkeypatch):
    path = files.points(tmp_path / "points.npz", 1500, classes=3, dims=5, spread=3, tests=20)
    table = preset("features", str(path)).table()
    table["data"]["noise"] = NOISE
    config = RunConfig.of(table)
    whole = table_of(train(config, tmp_path / "whole"))
    few_rows_are_enough(monkeypatch)
    run = train(config, tmp_path / "some")
    estimates, judged = table_of(run)
    assert estimates.rate.value == pytest.approx(whole[0].rate.value, abs=0.03)
    assert estimates.rate.high == 1
    assert float((judged.p_wrong - whole[1].p_wrong).abs().mean()) < 0.05
    rows = prepare_examples(run.config.data, run.config.seed).train
    found = find_errors(rows.inputs.fetch(torch.arange(len(rows))).numpy(), rows.labels.hard.numpy())
    torch.testing.assert_close(judged.p_wrong, torch.from_numpy(found.p_wrong), rtol=0, atol=1e-5)


def test_verified_labels_count_among_very_many_rows(make_config, tmp_path, monkeypatch):
    few_rows_are_enough(monkeypatch)
    path = files.points(tmp_path / "points.npz", 900, classes=3, dims=5, spread=3, tests=20)
    table = preset("features", str(path)).table()
    table["data"]["noise"] = NOISE
    rows = prepare_examples(RunConfig.of(table).data, 0).train
    places = range(0, 900, 9)
    table["data"]["trusted"] = {"path": str(verified(tmp_path, rows, places, rows.reference))}
    with pytest.warns(UserWarning, match="taken for row numbers"):
        run = train(RunConfig.of(table), tmp_path / "run")
    labels = LabelTable.open(run)
    assert labels.answers == {row: int(rows.reference[row]) for row in places}
    best = torch.cat([judged.taken("best") for judged in labels.chunks(learned=True)])
    assert torch.equal(best[0::9], rows.reference[0::9])
