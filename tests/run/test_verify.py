"""A run is checked as a whole: each changed bit is found, and each part of another run."""

import json
import random
import shutil
import subprocess
import sys

import pytest
import torch

from pencil.errors import RunError
from pencil.identity import run_id, seal_problem
from pencil.results import read_estimates, save_labels, write_estimates
from pencil.run import LabelTable, RunDirectory, resume, train
from pencil.run.provenance import SUFFIX, source_of, write_source
from pencil.run.verify import verify_run
from support import runs


@pytest.fixture
def copy(finished, tmp_path):
    return RunDirectory(shutil.copytree(finished.path, tmp_path / "run"))


def problems(run):
    return [each.problem for each in verify_run(run) if each.problem is not None]


def sealed_files(run):
    found = [path for path in run.rglob("*") if path.suffix in (".json", ".safetensors")]
    return sorted(path for path in found if "checkpoints" not in path.parts)


def test_a_finished_run_is_whole(finished):
    assert problems(finished.path) == []
    assert len(sealed_files(finished.path)) >= 8
    assert all(seal_problem(path, run_id(finished.path)) is None for path in sealed_files(finished.path))


def test_each_of_100_flipped_bits_is_found(copy):
    """In every file of results and beliefs, and in checkpoints."""
    files = [*sealed_files(copy.path), *copy.checkpoints.glob("step-*/*")]
    choose = random.Random(33)
    for number in range(100):
        path = files[number % len(files)]
        content = path.read_bytes()
        bit = choose.randrange(8 * len(content))
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        assert problems(copy.path), f"{path.name}, bit {bit}"
        path.write_bytes(content)
    assert problems(copy.path) == []


@pytest.mark.parametrize("name", ["labels/00000-00000.safetensors", "posterior/00000-00000.safetensors"])
def test_changed_rows_are_not_delivered(copy, name):
    content = bytearray((copy.path / name).read_bytes())
    content[-5] ^= 1
    (copy.path / name).write_bytes(content)
    with pytest.raises(RunError, match="checksum"):
        _read(copy)


def _read(directory):
    table = LabelTable.open(directory)
    return directory.summary, list(table.chunks()), list(table.learned_chunks())


@pytest.mark.parametrize("name", ["labels", "posterior", "estimates.json", "model.json", "summary.json"])
def test_a_part_of_another_run_is_refused(make_config, copy, tmp_path, name):
    noise = {"kind": "symmetric", "rate": 0.3}
    other = train(make_config(data={"noise": noise, "validation": 0.2}), tmp_path / "other")
    shutil.rmtree(copy.path / name) if (copy.path / name).is_dir() else (copy.path / name).unlink()
    (shutil.copytree if (other.path / name).is_dir() else shutil.copy)(other.path / name, copy.path / name)
    assert problems(copy.path)
    with pytest.raises(RunError, match="belongs to"):
        _read(copy)


def test_rows_that_are_not_those_of_the_labels_are_found(copy):
    """Written by somebody who can seal files, too."""
    table = LabelTable.open(copy)
    (rows,) = table.posterior.chunks(1000)
    save_labels(
        copy.path, torch.arange(len(rows.ids)), rows.given, rows.rows, rows.ids[::-1], name="posterior"
    )
    assert any("other rows" in problem for problem in problems(copy.path))
    wrong = {name: torch.full_like(value, 0.9) for name, value in rows.rows.items()}
    save_labels(copy.path, torch.arange(len(rows.ids)), rows.given, wrong, rows.ids, name="posterior")
    assert any("no probabilities" in problem for problem in problems(copy.path))


@pytest.mark.parametrize(
    "name", ["summary.json", "labels", "posterior/more", ".partial-report.html", "checkpoints"]
)
def test_links_in_a_run_are_refused(copy, tmp_path, name):
    place = copy.path / name
    if place.is_dir():
        shutil.move(place, tmp_path / "elsewhere")
    place.unlink(missing_ok=True)
    place.symlink_to(tmp_path / "elsewhere")
    assert problems(copy.path)
    with pytest.raises(RunError, match="link"):
        RunDirectory.open(copy.path)


def test_a_run_of_a_newer_version_is_refused_with_words(copy):
    file = copy.path / "run.json"
    file.write_text(file.read_text().replace('"format": 1', '"format": 2'))
    with pytest.raises(RunError, match="newer"):
        RunDirectory.open(copy.path)


def test_a_run_from_before_is_read_and_converted_once(copy):
    before = [judged.suggested.tolist() for judged in LabelTable.open(copy).chunks()]
    runs.as_before(copy.path)
    assert [judged.suggested.tolist() for judged in LabelTable.open(copy).chunks()] == before
    assert any("resume" in problem for problem in problems(copy.path))
    resume(copy.path)
    assert problems(copy.path) == []
    owner = run_id(copy.path)
    resume(copy.path)
    assert run_id(copy.path) == owner
    assert [judged.suggested.tolist() for judged in LabelTable.open(copy).chunks()] == before


def test_a_run_from_before_that_was_not_finished_resumes(make_config, finished, copy):
    runs.as_before(copy.path)
    (copy.path / "summary.json").unlink()
    resume(copy.path)
    assert problems(copy.path) == []
    for ours, theirs in zip(LabelTable.open(copy).chunks(), LabelTable.open(finished).chunks(), strict=True):
        assert torch.equal(ours.distribution, theirs.distribution)


def test_files_of_labels_say_what_they_were_made_from(copy, tmp_path):
    file = tmp_path / "labels.csv"
    file.write_text("id\n")
    before = source_of(copy)
    write_source(file, before)
    said = json.loads(file.with_name(f"labels.csv{SUFFIX}").read_text())
    assert (said["run"], said["belief"], said["entry"]) == (run_id(copy.path), before["belief"], None)
    estimates = read_estimates(copy.path, 3)
    write_estimates(copy.path, estimates.__class__(**{**vars(estimates), "surest": 0.5}))
    assert source_of(copy)["belief"] != before["belief"]


def test_the_command_exits_with_1_and_the_remedy(copy):
    command = [sys.executable, "-m", "pencil", "verify", str(copy.path), "--json"]
    assert json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["problems"] == []
    (copy.path / "labels" / "00000-00000.safetensors").unlink()
    found = subprocess.run(command, capture_output=True, check=False)
    assert found.returncode == 1
    assert json.loads(found.stdout)["problems"]
