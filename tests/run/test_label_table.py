"""Probabilities corrected by an audit: whole and cut rows alike, in every figure that follows from them."""

import pytest
import torch

from pencil.errors import RunError
from pencil.estimates import Curve, Recalibration
from pencil.results import Audited, read_recalibration, write_audited
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
