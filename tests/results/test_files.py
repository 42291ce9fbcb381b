"""Tables are written whole or not at all; a damaged result says how to make it anew."""

import json
import os

import pytest
import torch
from safetensors.torch import save_file

from pencil.errors import ConfigError, RunError
from pencil.results.files import read_json, read_tensors, writing


def test_a_file_appears_whole_in_folders_made_for_it(tmp_path):
    out = tmp_path / "new folder" / "żółć.csv"
    with writing(out, ".csv") as partial:
        partial.write_text("whole")
        assert not out.exists()
    assert [path.name for path in out.parent.iterdir()] == ["żółć.csv"]
    assert out.read_text() == "whole"


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    out = tmp_path / "labels.csv"
    out.write_text("old")
    with pytest.raises(UnicodeEncodeError), writing(out, ".csv") as partial:
        partial.write_text("half\ud800", encoding="utf-8")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_another_ending_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"labels.txt: the ending must be .csv or .npy"):
        writing(tmp_path / "labels.txt", ".csv", ".npy").__enter__()


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    out = tmp_path / "file" / "labels.csv"
    with pytest.raises(ConfigError, match=r"--out .*labels.csv: cannot be written .*choose another"):
        writing(out, ".csv").__enter__()
    (tmp_path / "folder.csv").mkdir()
    with (
        pytest.raises(ConfigError, match=r"folder.csv: cannot be written"),
        writing(tmp_path / "folder.csv", ".csv") as partial,
    ):
        partial.write_text("")


def test_what_is_whole_is_read(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps({"name": "żółć"}, ensure_ascii=False), encoding="utf-8")
    save_file({"x": torch.arange(3)}, tmp_path / "a.safetensors")
    assert read_json(tmp_path / "a.json") == {"name": "żółć"}
    assert read_tensors(tmp_path / "a.safetensors")["x"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("content", [None, b"{", b"\xff"])
@pytest.mark.parametrize("read", [read_json, read_tensors])
def test_what_is_damaged_says_how_to_write_it_again(tmp_path, read, content):
    file = tmp_path / "a run" / "result"
    file.parent.mkdir()
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(
        RunError, match=r"result cannot be read .*rm -f '.*summary.json' && pencil resume '.*a run'"
    ):
        read(file)


@pytest.mark.parametrize(
    "content",
    [b"[1]", b'"a"', b"[" * 100_000, b'{"a": ' + b"9" * 5000 + b"}", b"{}x", b'{"a": "\\ud800"}'],
    ids=["list", "text", "deep", "digits", "more", "surrogate"],
)
def test_json_that_is_no_plain_object_is_one_error(tmp_path, content):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(RunError, match=r"a\.json.* (cannot be read|is not valid JSON)"):
        read_json(tmp_path / "a.json")


@pytest.mark.parametrize("read", [read_json, read_tensors])
def test_a_pipe_is_not_waited_for(tmp_path, read):
    os.mkfifo(tmp_path / "result")
    with pytest.raises(RunError, match=r"result cannot be read \(is not a plain file"):
        read(tmp_path / "result")


def test_a_missing_file_is_told_once(tmp_path):
    with pytest.raises(
        RunError, match=r"result cannot be read \(No such file or directory\); write the results again"
    ):
        read_json(tmp_path / "result")
