"""Data that grow: known rows start from what an earlier run learned and people decided, and new rows join."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from pencil.algorithm import Pencil
from pencil.configure import continued, train_config
from pencil.data import read_features
from pencil.engine import LabelLearner
from pencil.errors import ConfigError, DataError, RunError
from pencil.kinds import TrustedLabels
from pencil.results import SavedLabels, read_card
from pencil.review import Review
from pencil.review.history import Who
from pencil.run import LabelTable, RunDirectory, labels_since, train
from pencil.run.joining import _fitted, _heads, start_labels, start_network
from pencil.run.trusted import verified_labels

ANN = Who("ann", "Ann")
ROWS, CLASSES, DIMS = 150, 3, 6


def write(path, rows, *, names=("cat", "cow", "dog"), seed=0, order=None, changed=()):
    """The first rows of one large data set, with two wrong labels; ``order`` shuffles them, ``changed`` moves some."""
    random = np.random.default_rng(seed)
    labels = random.integers(CLASSES, size=400)
    values = (5 * np.eye(DIMS)[labels] + random.normal(size=(400, DIMS))).astype(np.float32)
    labels[[3, 8]] = (labels[[3, 8]] + 1) % CLASSES
    values[list(changed)] += 0.25
    chosen = np.arange(rows) if order is None else np.asarray(order)
    ids = np.array([f"row {row}" for row in chosen])
    known = np.unique(np.array(names)).tolist() if len(names) > CLASSES else list(names)
    given = np.array([known.index(names[label]) for label in labels[chosen]])
    np.savez(path, X=values[chosen], y=given, names=np.array(known), ids=ids)
    return path


@pytest.fixture(scope="module")
def earlier(tmp_path_factory):
    folder = tmp_path_factory.mktemp("earlier")
    config = train_config(str(write(folder / "data.npz", ROWS)), None, None, epochs="2,12,6")
    return train(config, folder / "run")


def joined(earlier, data, out, **words):
    base = continued(str(data), earlier.path, None)
    return train(train_config(str(data), None, None, base=base, **words), out)


def test_known_rows_start_from_what_was_learned_and_new_rows_from_their_labels(earlier, tmp_path):
    config = earlier.config
    train_rows = read_features(write(tmp_path / "more.npz", ROWS + 20, order=range(ROWS + 19, -1, -1))).train
    learner = LabelLearner(Pencil(), train_rows.labels, config.phases)
    fresh = learner.store.gather(torch.arange(len(train_rows))).clone()
    assert start_labels(learner, train_rows, earlier) == ROWS
    rows = learner.store.gather(torch.arange(len(train_rows)))
    learned = SavedLabels(earlier.path, CLASSES).rows(0, ROWS).rows["values"]
    assert torch.equal(rows[20:].flip(0), learned)
    assert torch.equal(rows[:20], fresh[:20])


def test_a_row_with_other_content_counts_as_new(earlier, tmp_path):
    train_rows = read_features(write(tmp_path / "more.npz", ROWS, changed=[5, 6])).train
    learner = LabelLearner(Pencil(), train_rows.labels, earlier.config.phases)
    assert start_labels(learner, train_rows, earlier) == ROWS - 2


def test_columns_and_outputs_follow_their_classes(earlier, tmp_path):
    """A new class in between moves the others."""
    data = write(tmp_path / "more.npz", ROWS, names=("cat", "cow", "dog", "bat"))
    train_rows = read_features(data).train
    assert train_rows.class_names == ("bat", "cat", "cow", "dog")
    learner = LabelLearner(Pencil(), train_rows.labels, earlier.config.phases, num_classes=4)
    start_labels(learner, train_rows, earlier)
    learned = SavedLabels(earlier.path, CLASSES).rows(0, ROWS).rows["values"]
    assert torch.equal(learner.store.gather(torch.arange(ROWS))[:, 1:], learned)
    new = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(DIMS, 4))
    fresh = new[1].weight.detach().clone()
    start_network(new, earlier, train_rows.class_names)
    old = load_file(earlier.path / "model.safetensors")["1.weight"]
    assert torch.equal(new[1].weight[1:], old)
    assert torch.equal(new[1].weight[0], fresh[0])


def answers(run):
    """The suggested class of every row."""
    table = LabelTable.open(run)
    return {
        name: label
        for rows in table.chunks()
        for name, label in zip(rows.ids, rows.suggested.tolist(), strict=True)
    }


def test_a_joined_run_needs_fewer_epochs_and_keeps_the_labels(earlier, tmp_path):
    run = joined(earlier, write(tmp_path / "more.npz", ROWS + 40), tmp_path / "run")
    assert [phase.epochs for phase in run.config.phases] == [0, 5, 5]
    now, before = answers(run), answers(earlier)
    assert len(now) == ROWS + 40
    assert np.mean([now[name] == label for name, label in before.items()]) > 0.98


def test_a_run_that_few_rows_join_needs_hardly_any_epochs(earlier, tmp_path):
    run = joined(earlier, write(tmp_path / "more.npz", ROWS + 5), tmp_path / "run")
    assert [phase.epochs for phase in run.config.phases] == [0, 2, 1]
    now, before = answers(run), answers(earlier)
    assert len(now) == ROWS + 5
    assert np.mean([now[name] == label for name, label in before.items()]) > 0.98


def decide(run, *actions):
    """Decisions on the first rows of the queue; the id of each."""
    review, ids = Review(run, with_sure=True), []
    answer = review.take(ANN.client)
    for number, action in enumerate(actions):
        item = answer["items"][0]
        ids.append(item["id"])
        answer = review.decide(ANN, f"t{number}", [(item["row"], item["version"])], **action)
    review.close()
    return ids


def test_decisions_stay_over_several_runs(earlier, tmp_path):
    """Also those that a run was only trained with, and rows that were dropped do not return."""
    first = tmp_path / "first"
    shutil.copytree(earlier.path, first)
    labelled, dropped = decide(RunDirectory(first), {"action": "choose", "label": 2}, {"action": "drop"})
    data = write(tmp_path / "more.npz", ROWS + 20)
    second = joined(RunDirectory(first), data, tmp_path / "second")
    third = joined(second, write(tmp_path / "most.npz", ROWS + 30), tmp_path / "third")
    for run, rows in ((second, ROWS + 19), (third, ROWS + 29)):
        now = answers(run)
        assert len(now) == rows
        assert now[labelled] == 2
        assert dropped not in now


def test_runs_that_lead_in_a_circle_are_refused(earlier, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(earlier.path, run)
    settings = run / "config.toml"
    settings.write_text(settings.read_text() + f'\n[data.trusted]\npath = "{run}"\nentry = 0\n')
    with pytest.raises(DataError, match="its own decisions"):
        verified_labels(TrustedLabels(path=str(run)))


def test_labels_since_writes_new_and_changed_rows(earlier, tmp_path):
    run = joined(earlier, write(tmp_path / "more.npz", ROWS + 40), tmp_path / "run")
    chunks, names = labels_since(run, earlier)
    ids = [name for rows in chunks for name in rows.ids]
    new = {f"row {row}" for row in range(ROWS, ROWS + 40)}
    assert new <= set(ids)
    assert len(ids) < ROWS // 2 + 40
    same, _ = labels_since(earlier, earlier)
    assert not [name for rows in same for name in rows.ids]
    assert names == ("cat", "cow", "dog")


def test_rows_that_vanished_are_dropped(earlier, tmp_path):
    run = joined(earlier, write(tmp_path / "less.npz", ROWS - 50), tmp_path / "run")
    assert len(LabelTable.open(run)) == ROWS - 50


def test_an_unfinished_run_cannot_be_joined(tmp_path, earlier):
    part = tmp_path / "part"
    shutil.copytree(earlier.path, part)
    (part / "summary.json").unlink()
    with pytest.raises(RunError, match="is not finished"):
        joined(RunDirectory(part), write(tmp_path / "more.npz", ROWS + 1), tmp_path / "run")


def test_settings_of_the_earlier_run_are_used_and_others_refused(earlier, tmp_path):
    data = str(write(tmp_path / "more.npz", ROWS))
    config = train_config(data, None, None, base=continued(data, earlier.path, None), seed=7)
    assert config.seed == 7
    assert config.method == earlier.config.method
    with pytest.raises(ConfigError, match="--from and --preset cannot be combined"):
        continued(data, earlier.path, None, preset="features")
    with pytest.raises(ConfigError, match="it needs a run on features"):
        continued(data, None, "last")
    with pytest.raises(ConfigError, match="it needs a run on features"):
        continued(data, earlier.path, "all")
    assert continued(data, None, None) is None


def test_rows_that_join_start_from_prototypes_of_all_rows(earlier, tmp_path):
    assert earlier.config.start.labels == "prototypes"
    run = joined(earlier, write(tmp_path / "more.npz", ROWS + 40), tmp_path / "run")
    assert run.config.start.labels == "prototypes"
    assert SavedLabels(run.path, CLASSES, name="start").num_rows == ROWS + 40
    learned = torch.cat([judged.suggested for judged in LabelTable.open(run).learned_chunks()])
    given = torch.cat([judged.given for judged in LabelTable.open(run).learned_chunks()])
    assert (learned != given).nonzero()[:, 0].tolist() == [3, 8]  # the two wrong labels


def test_only_a_last_layer_follows_the_classes(earlier, tmp_path):
    """A hidden layer may be as wide as there are classes."""
    names = ("dog", "cat", "eel")
    wide = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(DIMS, CLASSES), torch.nn.Linear(CLASSES, CLASSES)
    )
    assert _heads(wide, CLASSES) == ("2.",)
    several = {"a": torch.nn.Sequential(torch.nn.Linear(2, CLASSES)), "b": wide}
    several |= {"fc": torch.nn.Linear(2, CLASSES), "aux": torch.nn.Linear(2, CLASSES)}
    assert set(_heads(torch.nn.ModuleDict(several), CLASSES)) == {"a.0.", "b.2.", "fc.", "aux."}
    assert "weight".startswith(_heads(torch.nn.Linear(2, CLASSES), CLASSES))  # a network that is one layer
    card = replace(read_card(earlier.path), class_names=("cat", "cow", "dog"))
    value, fresh = torch.arange(3.0)[:, None], torch.full((3, 1), -1.0)
    assert torch.equal(_fitted(value, fresh, card, names, is_head=False), value)
    assert _fitted(value, fresh, card, names, is_head=True)[:, 0].tolist() == [2.0, 0.0, -1.0]
