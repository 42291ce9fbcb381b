"""A machine that runs out of disk, descriptors or memory, and checkpoints all damaged: one line, nothing lost."""

import sys
from pathlib import Path

import pytest

from pencil.cli.main import main
from pencil.errors import RunError
from pencil.identity import unsealed
from pencil.run import resume, train

FILES = ("model.safetensors", "labels/00000-00000.safetensors")


@pytest.fixture(scope="module")
def config(make_config):
    return make_config(
        epochs=(1, 2, 1),
        checkpoint={"steps": 2, "keep": 2},
        train={"batch_size": 40},
        method={"label_rate": 6.0},
    )


@pytest.fixture(scope="module")
def undisturbed(config, tmp_path_factory):
    return train(config, tmp_path_factory.mktemp("runs") / "undisturbed").path


def assert_same(out, expected):
    for name in FILES:
        assert unsealed(out / name) == unsealed(expected / name), name


def damage_checkpoints(out):
    found = sorted((out / "checkpoints").glob("step-*"))
    for path in found:
        (path / ".metadata").write_bytes(b"")
    return found


def test_a_disk_that_fills_while_a_run_saves_ends_it_in_a_line_and_it_can_be_resumed(
    config, undisturbed, limited, tmp_path
):
    out = tmp_path / "run"
    told = rf"^{out}: a file grew beyond the limit .*; then continue with: pencil resume {out}$"
    with limited("RLIMIT_FSIZE", 3000), pytest.raises(RunError, match=told):
        train(config, out)
    assert not list((out / "checkpoints").glob("step-*"))
    assert resume(out).is_finished
    assert_same(out, undisturbed)


def test_a_disk_that_fills_while_results_are_written_leaves_an_unfinished_run(
    config, undisturbed, limited, tmp_path, monkeypatch
):
    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr("pencil.run.finishing.save_labels", limited("RLIMIT_FSIZE", 300)(_save_labels))
        with pytest.raises(
            RunError, match=r"a file grew beyond the limit .*; then continue with: pencil resume"
        ):
            train(config, out)
    assert not (out / "summary.json").exists()
    assert resume(out).is_finished
    assert_same(out, undisturbed)


def _save_labels(*words, **named):
    from pencil.results import save_labels

    save_labels(*words, **named)


def test_too_few_descriptors_for_loader_workers_end_in_a_line_before_any_is_started(
    make_config, limited, tmp_path
):
    """A worker that cannot hand over what it read would leave the others waiting."""
    config = make_config(epochs=(1, 1, 1), train={"workers": 2}, method={"label_rate": 12.0})
    told = r"^train.workers = 2: they need 48 open files beside the \d+ there are, but the limit is \d+; raise it"
    used = len(list(Path("/dev/fd").iterdir()))
    with limited("RLIMIT_NOFILE", used + 40), pytest.raises(RunError, match=told):
        train(config, tmp_path / "run")
    assert resume(tmp_path / "run").is_finished


def test_too_little_memory_ends_in_a_line(points, limited, tmp_path, monkeypatch, capsys):
    words = ("train", str(points), "--out", str(tmp_path / "run"), "--quiet", "--set", "model.name=mlp")
    monkeypatch.setattr(sys, "argv", ["pencil", *words, "--set", "model.args.hidden=[9000, 9000]"])
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    with limited("RLIMIT_AS", pages * 4096 + (200 << 20)), pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert told.startswith("error: ")
    assert "out of memory: use a smaller train.batch_size" in told
    assert told.count("\n") == 1


def test_where_all_checkpoints_are_damaged_a_run_begins_again_only_if_it_is_told_to(
    config, undisturbed, tmp_path
):
    out = tmp_path / "run"
    train(config, out)
    (out / "summary.json").unlink()
    found = damage_checkpoints(out)
    with pytest.raises(RunError, match=r"every checkpoint is damaged .* pencil resume .* --from-start"):
        resume(out)
    assert sorted((out / "checkpoints").glob("step-*")) == found
    assert resume(out, from_start=True).is_finished
    assert_same(out, undisturbed)
    assert len((out / "metrics.jsonl").read_text().splitlines()) == 4


def test_where_the_newest_checkpoint_is_damaged_the_one_before_is_used(config, undisturbed, tmp_path):
    out = tmp_path / "run"
    train(config, out)
    (out / "summary.json").unlink()
    newest = max((out / "checkpoints").glob("step-*"))
    (newest / ".metadata").write_bytes(b"")
    with pytest.warns(UserWarning, match=f"checkpoint {newest.name} is not used: .metadata"):
        assert resume(out).is_finished
    assert_same(out, undisturbed)
