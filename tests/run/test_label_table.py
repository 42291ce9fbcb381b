"""Probabilities corrected by an audit: whole and cut rows alike, in every figure that follows from them."""

from dataclasses import replace

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from pencil.errors import RunError
from pencil.estimates import Curve, Recalibration
from pencil.results import Audited, read_estimates, read_recalibration, write_audited, write_estimates
from pencil.results.audited import AUDITED
from pencil.run import LabelTable, RunDirectory
from support import runs

CORRECTION = Recalibration(Curve(-1.0, 0.5), Curve(0.3, 0.8))


def read(run, **options):
    table = LabelTable.open(RunDirectory.open(run), **options)
    return table, list(table.chunks())


@pytest.mark.parametrize("store", ["dense", "top:4"])
def test_the_correction_changes_all_rows(tmp_path, store):
    run = runs.run_of_logits(tmp_path / "run", *runs.random_rows(60, 8, scale=2.0), store=store)
    _, before = read(run)
    write_audited(run, Audited(CORRECTION, 100))
    table, after = read(run)
    for old, new in zip(before, after, strict=True):
        assert torch.allclose(
            new.p_wrong, CORRECTION.wrong(old.p_wrong), atol=0.01
        )  # cut rows have half precision
        assert not torch.allclose(new.p_wrong, old.p_wrong, atol=0.05)
    assert table.described_rule["recalibration"]["wrong"] == {"shift": -1.0, "slope": 0.5}
    table, same = read(run, recalibrated=False)
    assert torch.equal(same[0].p_wrong, before[0].p_wrong)
    assert table.described_rule["recalibration"] is None


def test_suggestions_count_as_no_surer_than_the_estimates_allow_until_an_audit_has_checked_them(tmp_path):
    run = runs.run_of_logits(tmp_path / "run", *runs.random_rows(200, 2, scale=9.0))
    assert (read(run)[0].thresholds < 1).any()
    estimates = read_estimates(run, 2)
    write_estimates(run, replace(estimates, surest=0.85))
    assert (read(run)[0].thresholds > 1).all()
    write_audited(run, Audited(Recalibration(Curve(0.0, 1.0), Curve(0.0, 1.0)), 100))
    assert (read(run)[0].thresholds < 1).any()


def test_the_file_of_a_correction_is_checked(tmp_path):
    assert read_recalibration(tmp_path) is None
    write_audited(tmp_path, Audited(CORRECTION, 7))
    assert read_recalibration(tmp_path) == CORRECTION
    for text in (
        "{}",
        '{"recalibration": {"wrong": {"shift": 0.0, "slope": -1.0}, "other": null}, "checked": 1}',
    ):
        (tmp_path / AUDITED).write_text(text)
        with pytest.raises(RunError, match="remove it to use the uncorrected probabilities"):
            read_recalibration(tmp_path)


@pytest.mark.parametrize("wrong", [float("nan"), -0.1])
def test_rows_that_are_no_probabilities_are_refused(tmp_path, wrong):
    run = runs.run_of_logits(tmp_path / "run", *runs.random_rows(60, 8))
    (part,) = (run / "posterior").glob("*.safetensors")
    with safe_open(part, framework="pt") as file:
        metadata = file.metadata()
    tensors = load_file(part)
    (name,) = (name for name, value in tensors.items() if value.shape == (60, 8))
    tensors[name][3, 0] = wrong
    save_file(tensors, part, metadata)
    runs.reseal(part)
    with pytest.raises(RunError, match="rows 0 to 59 contain invalid probabilities; do not use these labels"):
        read(run)
