"""What a report shows of the rows."""

import numpy as np
import pytest
import torch

from pencil.data import Beside
from pencil.data.pixels import encode_png
from pencil.report.shortlist import Case
from pencil.report.source import Source
from pencil.run import RunDirectory
from support.runs import run_of_logits

pytest.importorskip("PIL")


def test_a_report_has_thumbnails_or_texts_of_what_is_beside_the_data(tmp_path):
    given = torch.arange(20) % 2
    np.savez(
        tmp_path / "points.npz",
        X=np.zeros((20, 5), np.float32),
        y=given,
        ids=[f"row {row}" for row in range(20)],
    )
    folder = run_of_logits(tmp_path / "run", torch.zeros(20, 2), given, data=tmp_path / "points.npz")
    run = RunDirectory.open(folder)
    (tmp_path / "texts.txt").write_text("".join(f"note {row}\n" for row in range(20)))
    for row in range(20):
        (tmp_path / f"row {row}.png").write_bytes(encode_png(torch.zeros(3, 4, 4, dtype=torch.uint8)))
    case = Case(
        row=3, id="row 3", given=0, suggested=1, second=2, confidence=0.9, runner_up=0.1, verdict="relabel"
    )
    plain, images, texts = (
        Source.of(run, beside=beside)
        for beside in (None, Beside("images", tmp_path), Beside("texts", tmp_path / "texts.txt"))
    )
    assert plain.matched is None
    assert "by path without ending" in images.matched
    assert "by the order of the rows" in texts.matched
    shown_as = [source.pictured([[case]])[0][0][0] for source in (plain, images, texts)]
    assert [each.thumbnail is not None for each in shown_as] == [False, True, False]
    assert [each.text for each in shown_as] == [None, None, "note 3"]
