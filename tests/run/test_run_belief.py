"""One belief about all rows of a run, or a fit by passes if they are very many."""

import pytest
import torch

from pencil import find_errors
from pencil.run import LabelTable, belief, prepare_examples, train

NOISE = {"kind": "symmetric", "rate": 0.3}


def table_of(run):
    table = LabelTable.open(run)
    (judged,) = table.chunks()
    return table.estimates, judged


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


def test_very_many_rows_are_fitted_by_passes(make_config, tmp_path, monkeypatch):
    config = make_config(data={"noise": NOISE})
    whole = table_of(train(config, tmp_path / "whole"))
    monkeypatch.setattr(belief, "MOST_NUMBERS", 10)
    monkeypatch.setattr(belief, "believed", None)
    estimates, judged = table_of(train(config, tmp_path / "passes"))
    assert estimates.rate.high < 1
    assert estimates.rate.value == pytest.approx(whole[0].rate.value, abs=0.1)
    assert float((judged.p_wrong - whole[1].p_wrong).abs().mean()) < 0.1
