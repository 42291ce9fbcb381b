"""What a report shows of the rows."""

import numpy as np
import pytest
import torch

from pencil.config import RunConfig
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


def shown_of(tmp_path, table, ids, beside=None):
    """What a report on a run with this data shows of its first row."""
    folder = run_of_logits(tmp_path / "run", torch.zeros(len(ids), 2), torch.arange(len(ids)) % 2, ids=ids)
    run = RunDirectory.open(folder)
    config = RunConfig.of(run.config.table() | {"data": table})
    (folder / "config.toml").write_text(config.toml())
    case = Case(
        row=0, id=ids[0], given=0, suggested=1, second=0, confidence=0.9, runner_up=0.1, verdict="review"
    )
    examples, note = Source.of(RunDirectory.open(folder), beside=beside).pictured([[case]])
    assert note is None
    return examples[0][0]


def write_images(folder, names, side):
    folder.mkdir()
    for name in names:
        (folder / name).write_bytes(encode_png(torch.zeros(3, side, side, dtype=torch.uint8)))


def test_texts_beside_texts_are_shown(tmp_path):
    (tmp_path / "data.csv").write_text("text,label\nfirst text,a\nsecond text,b\n")
    (tmp_path / "others.txt").write_text("one translated\ntwo translated\n")
    table = {"kind": "text", "path": str(tmp_path / "data.csv"), "embed": "ngrams"}
    assert shown_of(tmp_path, table, ["0", "1"]).text == "first text"
    others = Beside("texts", tmp_path / "others.txt")
    assert shown_of(tmp_path / "beside", table, ["0", "1"], others).text == "one translated"


@pytest.mark.parametrize("setting", [{"embed": "efficientnet_lite0"}, {"size": 8}])
def test_images_are_shown_as_stored_and_those_beside_them_first(tmp_path, setting):
    names = ["0.png", "1.png"]
    write_images(tmp_path / "images", names, 50)
    write_images(tmp_path / "others", names, 60)
    (tmp_path / "images" / "m.csv").write_text("path,label\n0.png,a\n1.png,b\n")
    table = {"kind": "manifest", "path": str(tmp_path / "images" / "m.csv"), **setting}
    assert shown_of(tmp_path, table, names).thumbnail.width == 50
    others = Beside("images", tmp_path / "others")
    assert shown_of(tmp_path / "beside", table, names, others).thumbnail.width == 60
