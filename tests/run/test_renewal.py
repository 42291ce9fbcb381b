"""A phase that begins with new labels, calibrated on held-out rows: what they are, exact on resume, alike on ranks."""

import re

import pytest
import torch
from test_estimation import of_digits
from test_run_auto import Die

from pencil.config import RunConfig
from pencil.engine import read_json_lines
from pencil.errors import ConfigError
from pencil.identity import unsealed
from pencil.results import POSTERIOR, SavedLabels
from pencil.run import LabelTable, RunDirectory, prepare_examples, resume, train
from pencil.run.posterior import PosteriorOfTraining
from support.ranks import on_ranks
from support.stopping import StopAfter

STEPS = 15  # an epoch
BEGINS = 7  # epochs before the labels are recomputed


def renewed(digits, labels="calibrated", **data) -> RunConfig:
    """The phases of ``of_digits``, then one in which the network learns from new labels."""
    table = of_digits(digits, **data).table() | {"plan": "fixed"}
    table["phases"].append({**table["phases"][-1], "epochs": 2, "labels": labels})
    return RunConfig.of(table)


@pytest.fixture(scope="module")
def undisturbed(digits, tmp_path_factory) -> RunDirectory:
    return train(renewed(digits), tmp_path_factory.mktemp("runs") / "run")


def rows(run, name):
    saved = SavedLabels(run.path, 2, name=name)
    return saved.rows(0, saved.num_rows).rows["values"]


def results(run):
    files = [run.path / "model.safetensors", *sorted(run.labels.iterdir())]
    return [unsealed(file) for file in files]


def test_the_labels_are_the_posterior_of_the_network_at_that_moment(digits, undisturbed, tmp_path):
    config = of_digits(digits).model_copy(update={"plan": "fixed"})
    until_then = train(config, tmp_path / "run")
    assert torch.equal(rows(undisturbed, f"calibrated-{BEGINS}"), rows(until_then, POSTERIOR))


def test_they_are_what_the_method_learns_from(digits, undisturbed, tmp_path):
    kept = train(renewed(digits, "kept"), tmp_path / "kept")
    assert not list(kept.path.glob("calibrated-*"))
    assert results(kept) != results(undisturbed)
    truth = prepare_examples(undisturbed.config.data, undisturbed.config.seed).train.reference
    right = (rows(undisturbed, "labels").argmax(1) == truth).float().mean()
    assert float(right) > 0.9


@pytest.mark.parametrize("step", [BEGINS * STEPS - 1, BEGINS * STEPS, BEGINS * STEPS + 1, 8 * STEPS + 5])
def test_a_run_that_was_stopped_continues_exactly(digits, undisturbed, tmp_path, step):
    stopped = train(renewed(digits), tmp_path / "run", (StopAfter(step),))
    assert not stopped.is_finished
    assert results(resume(stopped.path)) == results(undisturbed)


def test_a_killed_run_whose_checkpoint_is_older_computes_them_again(digits, undisturbed, tmp_path):
    table = renewed(digits).table() | {"checkpoint": {"steps": 50}}  # the last one is five steps before
    with pytest.raises(KeyboardInterrupt):
        train(RunConfig.of(table), tmp_path / "run", [Die(BEGINS * STEPS + 8)])
    assert (tmp_path / "run" / f"calibrated-{BEGINS}").is_dir()
    assert results(resume(tmp_path / "run")) == results(undisturbed)


@pytest.mark.ranks
@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("step", [BEGINS * STEPS, BEGINS * STEPS + 4])
def test_ranks_continue_from_the_labels_of_one_process(digits, undisturbed, tmp_path, ranks, step):
    stopped = train(renewed(digits), tmp_path / "run", (StopAfter(step),))
    on_ranks(ranks, "resume", stopped.path)
    found, name = RunDirectory.open(stopped.path), f"calibrated-{BEGINS}"
    torch.testing.assert_close(rows(found, name), rows(undisturbed, name), atol=1e-3, rtol=0)
    suggested = [rows(run, "labels").argmax(1) for run in (found, undisturbed)]
    assert (
        float((suggested[0] == suggested[1]).float().mean()) > 0.95
    )  # batch norm sees the rows of its rank alone


def test_a_network_that_has_memorised_its_labels_keeps_them(digits, tmp_path, monkeypatch):
    monkeypatch.setattr("pencil.estimates.held_out.MEMORISED", -50.0)
    run = train(renewed(digits), tmp_path / "run")
    kept = train(renewed(digits, "kept"), tmp_path / "kept")
    assert results(run) == results(kept)


def test_without_held_out_rows_the_plan_is_refused(digits, tmp_path):
    with pytest.raises(ConfigError, match=r'labels = "calibrated" needs .*200 rows .*set data\.validation'):
        train(renewed(digits, validation=0.0), tmp_path / "run")
    assert not (tmp_path / "run").exists()


CONFIRMED = "held-out labels show which classes are confused, so labels are recomputed, calibrated"
UNDONE = "correction is undone; labels are recomputed, calibrated"
MATRIX = ("estimates.held_out.PROOF", "estimates.held_out.PROOF_AFTER_ALARM")


def agreement_that_falls(metrics):
    """Of a network that memorises from the second epoch on."""
    return 1 - metrics["epoch"] / 100 if metrics["phase"] == "backbone" else metrics["validation_accuracy"]


@pytest.fixture(scope="module", params=["confirmed", "undone", "memorised and undone"])
def automatic(request, digits, tmp_path_factory):
    """A run of plan = "auto", and why its labels are recomputed.

    Any noise matrix counts as confirmed, or any first round as harmful.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in MATRIX if request.param == "confirmed" else ("engine.auto.HARMS",):
            patch.setattr(f"pencil.{name}", -1e9)
        if "memorised" in request.param:
            patch.setattr("pencil.engine.auto.MEMORISES", -1e9)
            patch.setattr("pencil.engine.auto._agreement", agreement_that_falls)
        run = train(of_digits(digits), tmp_path_factory.mktemp("runs") / "auto")
        yield run, CONFIRMED if request.param == "confirmed" else UNDONE


def test_auto_calibrates_labels_where_a_matrix_is_confirmed_or_correction_undone(automatic):
    run, why = automatic
    reasons = [choice["reason"] for choice in run.summary["choices"]]
    assert any(why in reason for reason in reasons)
    assert re.search(r"the calibrated labels (stay|are undone)$", reasons[-1])
    ends = [line for line in read_json_lines(run.metrics) if "noise_pairs" in line]
    assert all(line["held_out_likelihood"] < 0 for line in ends)
    assert len(list(run.path.glob("calibrated-*"))) == 1


def test_auto_resumes_exactly_while_the_network_learns_calibrated_labels(automatic, tmp_path):
    run, _ = automatic
    last = max(line["step"] for line in read_json_lines(run.metrics))
    stopped = train(run.config, tmp_path / "run", (StopAfter(last - 3),))
    assert not stopped.is_finished
    again = resume(stopped.path)
    assert again.summary["choices"] == run.summary["choices"]
    assert results(again) == results(run)


def test_changed_labels_are_counted_when_they_are_recomputed(undisturbed):
    before, after = (
        line["labels_changed"]
        for line in read_json_lines(undisturbed.metrics)
        if line["epoch"] in (BEGINS, BEGINS + 1)
    )
    given = SavedLabels(undisturbed.path, 2).rows(0, 750).given.hard
    assert after == int((rows(undisturbed, f"calibrated-{BEGINS}").argmax(1) != given).sum()) != before


def test_a_resumed_run_learns_from_the_labels_of_the_phase_that_recomputed_them_last(
    digits, tmp_path, monkeypatch
):
    """Of two phases the second finds a network that has memorised its labels, and keeps those of the first."""
    table = renewed(digits).table()
    table["phases"].append({**table["phases"][-1], "epochs": 1})
    calibrated = PosteriorOfTraining.calibrated

    def only_first(self):
        return calibrated(self) if self._training.learner.epoch < BEGINS + 1 else None

    monkeypatch.setattr(PosteriorOfTraining, "calibrated", only_first)
    config = RunConfig.of(table | {"method": {"name": "sparse_over_parametrization"}})
    whole = train(config, tmp_path / "whole")
    stopped = train(config, tmp_path / "stopped", (StopAfter(9 * STEPS + 4),))
    assert not stopped.is_finished
    assert results(resume(stopped.path)) == results(whole)


def test_labels_that_were_learned_against_calibrated_ones_are_read_as_they_were(digits, tmp_path):
    config = RunConfig.of(renewed(digits).table() | {"method": {"name": "sparse_over_parametrization"}})
    run = train(config, tmp_path / "run")
    believed = torch.cat([judged.suggested for judged in LabelTable.open(run).learned_chunks()])
    recomputed = rows(run, f"calibrated-{BEGINS}").argmax(1)
    given = SavedLabels(run.path, 2).rows(0, len(believed)).given.hard
    assert (believed == recomputed).float().mean() > 0.95 > (believed == given).float().mean()
