"""A run that starts from prototypes: exact on resume, alike for any number of ranks and store, with a second expert."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from test_estimation import images

from pencil.algorithm import TopRows
from pencil.config import RunConfig
from pencil.engine import Continue, Restore, read_json_lines, read_metrics
from pencil.errors import RunError
from pencil.presets import start_from
from pencil.results import SavedLabels, read_card, read_expert, save_expert
from pencil.results.files import read_tensors
from pencil.run import LabelTable, RunDirectory, evaluate, predict, prepare_examples, resume, train
from pencil.run.start import NAME
from support.ranks import on_ranks
from support.stopping import StopAfter

NOISE = {"kind": "symmetric", "rate": 0.4}


@pytest.fixture
def started(make_config):
    """Settings of a run that starts from prototypes."""

    def make(**options) -> RunConfig:
        table = make_config(data={"noise": NOISE}, **options).table()
        start_from(table, "prototypes")
        return RunConfig.of(table)

    return make


def learned(run):
    found = [judged.distribution for judged in LabelTable.open(run).learned_chunks()]
    return torch.cat([each.dense() if isinstance(each, TopRows) else each for each in found])


def start_rows(run):
    saved = SavedLabels(run.path, 3, name=NAME)
    return saved.rows(0, saved.num_rows)


def results(run):
    return {**read_tensors(run.path / "model.safetensors"), "labels": learned(run)}


def assert_same(one, two):
    for name, value in results(one).items():
        assert torch.equal(value, results(two)[name]), name


def test_labels_start_better_than_given_and_stay_so(started, make_config, tmp_path):
    run = train(started(), tmp_path / "run")
    truth = prepare_examples(run.config.data, run.config.seed).train.reference
    saved = start_rows(run)
    start = float((saved.rows["values"].argmax(1) == truth).float().mean())
    given = float((saved.given.hard == truth).float().mean())
    after = float((learned(run).argmax(1) == truth).float().mean())
    assert start > given + 0.1
    assert after >= start - 0.01


@pytest.mark.parametrize("step", [1, 4])
@pytest.mark.parametrize("store", ["dense", "top:2"])
def test_a_run_that_was_stopped_continues_exactly(started, tmp_path, step, store):
    whole = train(started(store=store), tmp_path / "whole")
    stopped = train(started(store=store), tmp_path / "stopped", (StopAfter(step),))
    assert not stopped.is_finished
    assert_same(resume(stopped.path), whole)


@pytest.mark.parametrize("step", [4, 5, 7])
def test_images_start_from_the_networks_features_and_continue_exactly(manifest, tmp_path, step):
    table = images(manifest, (8, 1, 0)).table() | {"start": {"labels": "prototypes"}}
    whole = train(RunConfig.of(table), tmp_path / "whole")  # three steps an epoch, features after six
    assert (whole.path / NAME).is_dir()
    stopped = train(RunConfig.of(table), tmp_path / "stopped", (StopAfter(step),))
    assert (stopped.path / NAME).is_dir() == (step >= 5)
    assert_same(resume(stopped.path), whole)
    with pytest.raises(RunError, match="has no second expert; train it on features with: --start prototypes"):
        evaluate(whole, "train", expert=True)


@pytest.mark.ranks
@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("store", ["dense", "top:2"])
def test_ranks_start_from_what_one_process_does(started, tmp_path, ranks, store):
    alone = train(started(store=store), tmp_path / "alone")
    (tmp_path / "config.toml").write_text(alone.config.toml())
    on_ranks(ranks, "train", "--config", tmp_path / "config.toml", "--out", tmp_path / "together")
    together = RunDirectory.open(tmp_path / "together")
    if store == "dense":
        one, several = (start_rows(run).rows["values"] for run in (alone, together))
        torch.testing.assert_close(several, one, atol=1e-5, rtol=0)
    torch.testing.assert_close(learned(together), learned(alone), atol=5e-3, rtol=0)
    theirs = read_expert(together.path, read_card(together.path))
    for name, value in read_expert(alone.path, read_card(alone.path)).items():
        torch.testing.assert_close(theirs[name], value, atol=1e-4, rtol=1e-4)


def test_a_stopped_run_continues_on_other_ranks_from_the_same_labels(started, tmp_path):
    stopped = train(started(), tmp_path / "stopped", (StopAfter(4),))
    before = start_rows(stopped).rows["values"]
    on_ranks(2, "resume", stopped.path)
    assert torch.equal(start_rows(stopped).rows["values"], before)
    whole = train(started(), tmp_path / "whole")
    torch.testing.assert_close(learned(stopped), learned(whole), atol=5e-3, rtol=0)


@pytest.mark.parametrize("method", ["cross_entropy", "early_learning", "sparse_over_parametrization"])
def test_any_method_may_start_from_prototypes(started, tmp_path, method):
    table = started().table() | {"method": {"name": method}}
    run = train(RunConfig.of(table), tmp_path / "run")
    believed = learned(run)
    torch.testing.assert_close(believed.sum(1), torch.ones(len(believed)), atol=1e-3, rtol=0)


def test_the_second_expert_adds_to_the_networks_prediction(started, points, tmp_path):
    run = train(started(), tmp_path / "run")
    network = evaluate(run, "train")["accuracy"]
    both = evaluate(run, "train", expert=True)["accuracy"]
    assert abs(both - network) < 0.2
    features = np.load(points)["X"]
    chunks, _ = predict(run, run.config.data, expert=True)
    got = torch.cat([judged.distribution for judged in chunks])
    tensors, card = read_expert(run.path, read_card(run.path)), read_card(run.path)
    inputs = torch.from_numpy(features)
    directions = torch.nn.functional.normalize(inputs @ tensors["weight"] - tensors["offset"], dim=1)
    units = torch.nn.functional.normalize(directions - tensors["centre"], dim=1)
    expert = (tensors["sharpness"] * units @ tensors["prototypes"].T).log_softmax(1)
    weights = read_tensors(run.path / "model.safetensors")
    prepared = (inputs - torch.tensor(card.mean)) / torch.tensor(card.std)
    logits = prepared @ next(v for v in weights.values() if v.dim() == 2).T + next(
        v for v in weights.values() if v.dim() == 1
    )
    torch.testing.assert_close(got, (logits.log_softmax(1) + expert).softmax(1), atol=1e-3, rtol=0)


def test_a_damaged_expert_is_named(started, tmp_path):
    run = train(started(epochs=(1, 5, 0)), tmp_path / "run")
    tensors = read_tensors(run.path / "expert.safetensors")
    save_expert(run.path, tensors | {"centre": torch.zeros(2)})
    with pytest.raises(RunError, match=r"expert.safetensors .*centre must be finite numbers of shape"):
        evaluate(run, "train", expert=True)


def test_changed_labels_are_counted_from_the_first_epoch(started, tmp_path):
    run = train(started(epochs=(2, 0, 0)), tmp_path / "run")  # no step of it writes labels
    saved = start_rows(run)
    differing = int((saved.rows["values"].argmax(1) != saved.given.hard).sum())
    assert differing > 0
    assert [line["labels_changed"] for line in read_json_lines(run.metrics)] == [differing] * 2
    assert run.summary["labels_changed"] == differing


def measured(run):
    """The numbers of every epoch, by which alarms and policies decide."""
    return [{**line, "seconds": 0} for line in read_metrics(run.metrics)]


class GoBack:
    """From the third epoch to the first, after which correction begins."""

    def decide(self, end):
        if len(end.history) == 2:
            backbone, correction, finetune = end.phases
            shorter = (replace(backbone, epochs=1), replace(correction, epochs=3), finetune)
            return Restore("first", shorter)
        return Continue(keep="first") if not end.history else Continue()


class Told:
    """After how many steps a start was computed; the step that ends an epoch is announced after it."""

    def __init__(self):
        self.after, self._step = [], 0

    def handle(self, event):
        self._step = event.step if event.kind == "step" else self._step
        if "prototypes" in event.values.get("words", ""):
            self.after.append(self._step)

    def close(self):
        pass


def test_a_policy_that_goes_back_starts_again_before_correction_and_not_during_it(manifest, tmp_path):
    table = images(manifest, (8, 1, 0)).table() | {
        "start": {"labels": "prototypes"}
    }  # the start is after two epochs
    config, told = RunConfig.of(table), Told()
    whole = train(config, tmp_path / "whole", (told,), policy=GoBack())
    assert whole.summary["last"]["epoch"] == 4
    assert told.after == [5, 9]
    assert (whole.path / f"{NAME}-1").is_dir()  # beside that of the course that was undone
    for step in (9, 10, 14):  # three steps an epoch: just after the restore, and in correction
        stopped = train(config, tmp_path / f"stopped-{step}", (StopAfter(step),), policy=GoBack())
        assert not stopped.is_finished
        resumed = resume(stopped.path, policy=GoBack())
        assert_same(resumed, whole)
        assert measured(resumed) == measured(whole)


def test_a_plan_that_ends_with_the_start_has_its_labels(manifest, tmp_path):
    table = images(manifest, (1, 0, 0)).table() | {"start": {"labels": "prototypes"}}
    run = train(RunConfig.of(table), tmp_path / "run")
    saved = SavedLabels(run.path, 2, name=NAME)
    differing = int(
        (saved.rows(0, saved.num_rows).rows["values"].argmax(1) != saved.rows(0, 12).given.hard).sum()
    )
    assert run.summary["labels_changed"] == differing
