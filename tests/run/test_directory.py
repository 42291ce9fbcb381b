"""A run's folder: made once, refused twice, and every complaint names a remedy."""

import json

import pytest

from pencil.errors import RunError
from pencil.run import RunDirectory


def test_a_new_run_keeps_its_settings_and_environment(make_config, tmp_path):
    config = make_config()
    directory = RunDirectory.create(tmp_path / "deep" / "żółć run", config)
    assert RunDirectory.open(directory.path).config == config
    assert "torch" in json.loads((directory.path / "environment.json").read_text())["packages"]
    assert not directory.is_finished


def test_a_folder_that_holds_a_run_is_refused(make_config, tmp_path):
    out = tmp_path / "a run"
    RunDirectory.vacant(out)
    RunDirectory.create(out, make_config())
    for refuse in (lambda: RunDirectory.vacant(out), lambda: RunDirectory.create(out, make_config())):
        with pytest.raises(
            RunError, match=r"already contains a run; continue it with: pencil resume '.*a run', or"
        ):
            refuse()


def test_a_place_that_cannot_hold_a_run_is_named(make_config, tmp_path):
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(RunError, match=r"--out .*cannot be written .*choose another"):
            RunDirectory.create(out, make_config())


def test_a_folder_without_a_run_cannot_be_opened(tmp_path):
    with pytest.raises(RunError, match=r"is not a run .*give a folder written by pencil train"):
        RunDirectory.open(tmp_path)


def test_an_unfinished_run_says_how_to_go_on(make_config, tmp_path):
    directory = RunDirectory.create(tmp_path / "my run", make_config())
    for ask in (directory.require_finished, lambda: directory.summary):
        with pytest.raises(RunError, match=r"is not finished; continue it with: pencil resume '.*my run'"):
            ask()
    summary = {"examples": 3, "labels_changed": 1, "last": {}, "seconds": 0.5, "alarms": [], "more": [1]}
    directory.write_summary(summary)
    assert directory.is_finished
    assert directory.summary == summary


@pytest.mark.parametrize("text", ["seed = ", "sed = 1"])
def test_settings_changed_by_hand_are_told_with_their_file(make_config, tmp_path, text):
    directory = RunDirectory.create(tmp_path, make_config())
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(RunError, match=r"config.toml is damaged: "):
        _ = directory.config


def test_a_damaged_summary_says_how_to_write_it_again(make_config, tmp_path):
    directory = RunDirectory.create(tmp_path, make_config())
    (tmp_path / "summary.json").write_text("{")
    with pytest.raises(RunError, match=r"summary.json cannot be read .*pencil resume"):
        _ = directory.summary


def test_after_a_restart_the_run_of_the_same_job_and_settings_is_known(make_config, tmp_path, monkeypatch):
    config = make_config()
    directory = RunDirectory(tmp_path / "run")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "job 1")
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert not directory.was_begun_by_this_job(config)  # the worker died before it made the folder
    RunDirectory.create(directory.path, config)
    assert directory.was_begun_by_this_job(config)
    assert not directory.was_begun_by_this_job(make_config(seed=9))


@pytest.mark.parametrize(
    ("count", "job", "known"), [("0", "named", True), ("0", "none", False), ("1", "none", True)]
)
def test_a_host_that_joins_again_knows_the_run_by_the_name_of_its_job(
    make_config, tmp_path, monkeypatch, count, job, known
):
    """Its torchrun counts from 0, and so does that of a host which only waited; "none": the job was given no name."""
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", job)
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", count)
    directory = RunDirectory.create(tmp_path / "run", make_config())
    assert directory.was_begun_by_this_job(make_config()) is known


def test_without_torchrun_no_run_is_this_jobs(make_config, tmp_path):
    directory = RunDirectory.create(tmp_path / "run", make_config())
    assert not directory.was_begun_by_this_job(make_config())


def test_the_newest_checkpoint_is_known_by_its_name(tmp_path):
    directory = RunDirectory(tmp_path)
    assert directory.saved_step is None
    for name in ("step-0000000007", "step-0000000014", ".step-0000000021.partial", "step-notes"):
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
    assert directory.saved_step == 14


def test_after_a_restart_a_review_that_went_on_makes_no_other_run(make_config, tmp_path, monkeypatch):
    asked = make_config(data={"trusted": {"path": "reviewed"}})
    begun = make_config(data={"trusted": {"path": "reviewed", "entry": 7}})
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "job 1")
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    directory = RunDirectory.create(tmp_path / "run", begun)
    assert directory.was_begun_by_this_job(asked)
    assert not directory.was_begun_by_this_job(make_config(data={"trusted": {"path": "another"}}))
    assert not directory.was_begun_by_this_job(make_config())


def test_a_restart_does_not_take_another_jobs_run_for_its_own(make_config, tmp_path, monkeypatch):
    """Its first start was refused because of that run, and torchrun tries refused starts again too."""
    config = make_config()
    directory = RunDirectory.create(tmp_path / "run", config)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "job 2")
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert not directory.was_begun_by_this_job(config)
