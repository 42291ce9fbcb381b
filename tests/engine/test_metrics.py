"""Metrics read again: what is lost or damaged stops nothing, and is said."""

import json

import pytest

from pencil.engine import JsonLines, read_json_lines, read_metrics
from pencil.errors import RunError

EPOCH = {"step": 1, "epoch": 1, "phase": "correction", "loss": 0.5, "labels_changed": 1, "seconds": 0.1}
STRANGE = [
    "",
    "{",
    "1",
    "[]",
    "{}",
    "[" * 5000,
    "9" * 5000,
    *(
        json.dumps(EPOCH | change)
        for change in ({"step": "1"}, {"epoch": 1.5}, {"phase": None}, {"loss": "x"})
    ),
    *(
        json.dumps(EPOCH | change)
        for change in ({"labels_changed": -1}, {"seconds": float("inf")}, {"epoch": 10**30})
    ),
    json.dumps(EPOCH | {"test_accuracy": None}),
]


@pytest.mark.parametrize("line", STRANGE, ids=range(len(STRANGE)))
def test_a_line_that_tells_of_no_epoch_is_left_out_and_said(tmp_path, line):
    path, good = tmp_path / "metrics.jsonl", json.dumps(EPOCH)
    path.write_text(f"{good}\n{line}\n{good}\n")
    with pytest.warns(UserWarning, match=r"metrics\.jsonl: 1 of 3 lines cannot be read and are left out"):
        assert read_metrics(path) == [EPOCH, EPOCH]


def test_a_diverged_epoch_is_an_epoch(tmp_path):
    (tmp_path / "metrics.jsonl").write_text(json.dumps(EPOCH | {"loss": float("nan")}) + "\n")
    assert len(read_metrics(tmp_path / "metrics.jsonl")) == 1


def test_epochs_that_a_restore_has_undone_are_left_out_but_not_what_they_cost(tmp_path):
    path = tmp_path / "metrics.jsonl"
    lines = [
        EPOCH | {"epoch": epoch, "step": step, "loss": loss, "seconds": 0.5, "forward_passes": 10}
        for epoch, step, loss in ((1, 2, 0.5), (2, 4, 0.4), (3, 6, 0.9), (2, 6, 0.4), (3, 8, 0.3))
    ]
    lines[3]["restored"] = "best"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    restored = lines[3] | {"seconds": 1.0, "forward_passes": 20}
    assert read_metrics(path) == [lines[0], restored, lines[4]]
    assert read_json_lines(path) == lines
    path.write_text("".join(json.dumps(line) + "\n" for line in lines[3:]))  # the lines before were lost
    assert read_metrics(path) == lines[3:]


@pytest.mark.parametrize("content", [b"", b'{"step": 1', None])
def test_no_epoch_or_a_cut_one_is_nothing(tmp_path, content):
    if content is not None:
        (tmp_path / "metrics.jsonl").write_bytes(content)
    assert read_metrics(tmp_path / "metrics.jsonl") == []


def test_a_resumed_run_goes_on_behind_damaged_lines(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step": "x"}\n{broken\n{"step": 2}\n')
    with pytest.warns(UserWarning, match="2 of 4 lines"):
        JsonLines(path, resume_at=5).close()
    assert read_json_lines(path) == [{"step": 1}, {"step": 2}]


@pytest.mark.parametrize("content", [b"{\n", b"1\n", b"\xff\n"])
def test_where_every_line_counts_a_damaged_one_is_an_error(tmp_path, content):
    (tmp_path / "some.jsonl").write_bytes(content)
    with pytest.raises(RunError, match=r"some\.jsonl"):
        read_json_lines(tmp_path / "some.jsonl")
