"""What one can do with a run."""

from types import SimpleNamespace

import pytest
import torch

from pencil.config import RunConfig
from pencil.errors import ConfigError, PencilError, RunError
from pencil.methods import CrossEntropy
from pencil.presets import preset
from pencil.results import SavedLabels
from pencil.run import LabelTable, prepare_examples, resume, train


def believed(directory):
    """Ids, given names and learned distributions of a run, joined."""
    table = LabelTable.open(directory)
    parts, names = list(table.learned_chunks()), table.class_names
    ids = [name for part in parts for name in part.ids]
    given = [names[label] for part in parts for label in part.given.tolist()]
    return ids, given, torch.cat([part.distribution for part in parts]), names


def test_labels_are_corrected(finished):
    assert finished.summary["last"]["labels_correct"] > 0.95
    ids, given, belief, names = believed(finished)
    train_split = prepare_examples(finished.config.data, finished.config.seed).train
    assert ids == list(train_split.ids)
    assert given == [names[label] for label in train_split.labels.values.tolist()]
    changed = sum(
        name != names[best] for name, best in zip(given, belief.argmax(dim=1).tolist(), strict=True)
    )
    assert changed == finished.summary["labels_changed"] > 5
    torch.testing.assert_close(belief.sum(dim=1), torch.ones(96))


@pytest.mark.parametrize(
    "wrong",
    [
        {"data": {"path": "no.npz"}},
        {"model": {"name": "small_cnn"}},
        {"data": {"validation": 0.001}},
        {"train": {"device": "gpu"}},
    ],
)
def test_a_mistake_leaves_no_folder_behind(make_config, tmp_path, wrong):
    with pytest.raises(PencilError):
        train(make_config(**wrong), tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_a_second_run_in_the_same_folder_is_refused(finished):
    with pytest.raises(RunError, match="already contains a run"):
        train(finished.config, finished.path)


def test_resuming_a_finished_run_answers_with_it(finished):
    before = (finished.path / "summary.json").read_bytes()
    assert resume(finished.path) == finished
    assert (finished.path / "summary.json").read_bytes() == before


def test_resuming_nothing_is_refused(tmp_path):
    with pytest.raises(RunError, match="is not a run"):
        resume(tmp_path)


@pytest.mark.parametrize("place", ["actions.Loop.run", "finishing.save_labels", "actions.build_runtime"])
def test_a_lost_rank_ends_in_one_line_that_names_what_was_saved(make_config, tmp_path, monkeypatch, place):
    """Wherever it is noticed; gloo's file and its guesses are left out. Real ones: tests/run/test_hosts.py."""

    def lose(*_, **__):
        raise RuntimeError(
            "[/a/gloo/transport/tcp/pair.cc:537] Read error [10.0.0.2]:1: Connection timed out. This is\ntypical"
        )

    monkeypatch.setattr(f"pencil.run.{place}", lose)
    with pytest.raises(RunError) as told:
        train(make_config(), tmp_path / "run")
    saved = (
        "the last checkpoint is at step 8"
        if place == "finishing.save_labels"
        else "no checkpoint was saved yet"
    )
    assert str(told.value) == (
        f"another rank was lost (Read error [10.0.0.2]:1: Connection timed out); {saved}; use torchrun "
        f"--max-restarts=N to restart all, or continue with any number of ranks: pencil resume {tmp_path / 'run'}"
    )


# kinds of labels


def image_config(manifest, epochs):
    table = preset("manifest", str(manifest)).table()
    table["data"] |= {"size": 8, "augment": None, "validation": 0.0}
    table["plan"] = "fixed"
    table["model"] = {"name": "small_cnn", "args": {"widths": [4, 4, 4]}}
    table["train"] |= {"precision": "fp32", "batch_size": 4}
    for phase, count in zip(table["phases"], epochs, strict=True):
        phase["epochs"] = count
    return RunConfig.of(table)


def test_trusted_rows_of_a_manifest_keep_their_labels_and_others_move(manifest, tmp_path):
    directory = train(image_config(manifest, (1, 3, 1)), tmp_path)
    saved = SavedLabels(tmp_path, 2).rows(0, 12)
    given, rows, ids = saved.given, saved.rows, saved.ids
    assert given.trusted.tolist() == [True] * 4 + [False] * 8
    start = directory.config.method.start_rows(given.values, 2)
    assert torch.equal(rows["values"][:4], start[:4])
    assert (rows["values"][4:] != start[4:]).any(dim=1).all()
    assert ids == [f"{number}.png" for number in range(12)]


def test_votes_are_where_labels_start(manifest, tmp_path):
    directory = train(image_config(manifest, (1, 0, 0)), tmp_path)
    _, given, belief, names = believed(directory)
    assert names == ("owl", "żubr")
    torch.testing.assert_close(belief[6], torch.tensor([0.25, 0.75]), atol=1e-3, rtol=0)
    torch.testing.assert_close(belief[7], torch.tensor([0.75, 0.25]), atol=1e-3, rtol=0)
    torch.testing.assert_close(belief[1], torch.tensor([1.0, 0.0]), atol=1e-3, rtol=0)
    assert given[6:8] == ["żubr", "owl"]


def test_cross_entropy_believes_every_label(make_config, tmp_path):
    directory = train(cross_entropy(make_config()), tmp_path)
    _, given, belief, names = believed(directory)
    assert [names[best] for best in belief.argmax(dim=1)] == given
    assert directory.summary["labels_changed"] == 0


def cross_entropy(config):
    return RunConfig.of({**config.table(), "method": {"name": "cross_entropy"}})


def test_tensorboard_is_written_on_request(make_config, tmp_path):
    pytest.importorskip("tensorboard")
    train(make_config(train={"tensorboard": True}), tmp_path)
    assert list((tmp_path / "tensorboard").iterdir())


def test_listeners_hear_the_run_and_are_closed(make_config, tmp_path):
    heard = []
    listener = SimpleNamespace(
        handle=lambda event: heard.append(event.kind), close=lambda: heard.append("closed")
    )
    train(make_config(), tmp_path, [listener])
    assert heard[0] == "begin"
    assert heard[-2:] == ["end", "closed"]
    assert heard.count("epoch") == 8


# stores


@pytest.mark.parametrize("store", ["dense:mapped", "top:2", "top:2:mapped"])
def test_every_store_trains_and_tells_its_labels(make_config, tmp_path, store):
    noise = {"kind": "symmetric", "rate": 0.3}
    directory = train(make_config(store=store, data={"noise": noise}), tmp_path / "run")
    assert directory.config.store == store
    assert not list((tmp_path / "run").glob("rows-*"))
    table = LabelTable.open(directory)
    names = table.class_names
    labels = [label for chunk in table.learned_chunks() for label in chunk.suggested.tolist()]
    reference = prepare_examples(directory.config.data, directory.config.seed).train.reference
    share = float((torch.tensor(labels) == reference).float().mean())
    assert share == pytest.approx(directory.summary["last"]["labels_correct"])
    assert len(names) > 2


def test_the_store_that_was_chosen_is_written_down(finished):
    assert finished.config.store == "dense"


def test_a_method_that_needs_whole_rows_refuses_cut_ones(make_config, tmp_path, monkeypatch):
    monkeypatch.setattr("pencil.methods.CrossEntropy.row_width", lambda self, classes: classes)
    with pytest.raises(ConfigError, match=r"store: 'top:2' cuts rows, .*'cross_entropy'.* dense"):
        train(make_config(store="top:2").model_copy(update={"method": CrossEntropy()}), tmp_path)
