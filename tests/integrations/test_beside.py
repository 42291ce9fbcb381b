"""What every adapter refuses, and labels as a file."""

from dataclasses import replace

import pytest
import torch

from pencil import LabelLearner, LinearSchedule, Pencil, three_phases
from pencil.errors import ConfigError, DataError, NotFiniteError, RunError
from pencil.integrations.beside import (
    load_label_file,
    require_fit,
    save_label_file,
    set_clock,
    survey_rows,
)
from pencil.methods import Forward

PHASES = three_phases(1, 10, 2, learning_rate=LinearSchedule(0.1, 0.0), finetune_rate=0.1)


def learner_of(method=None, store="dense"):
    return LabelLearner(method or Pencil(), torch.arange(12) % 3, PHASES, store=store)


def test_several_processes_are_refused():
    with pytest.raises(ConfigError, match="4 processes would each learn their own labels"):
        require_fit(learner_of(), None, epochs=13, processes=4)


def test_phases_with_recomputed_labels_are_refused():
    learner = learner_of()
    learner.phases = (*PHASES[:2], replace(PHASES[2], labels="calibrated"))
    with pytest.raises(ConfigError, match=r'phases\[2\].labels: "calibrated" requires .*; leave it out'):
        require_fit(learner, None, epochs=13, processes=1)


def test_the_clock_runs_within_an_epoch():
    learner = learner_of()
    set_clock(learner, 3, 1, 4)
    assert learner.epoch == 3.25
    assert learner.learning_rate == pytest.approx(0.1 * (1 - 2.25 / 10))


@pytest.mark.parametrize("store", ["dense", "top:2"])
def test_labels_go_through_a_file(tmp_path, store):
    learner, again = learner_of(store=store), learner_of(store=store)
    learner.epoch = 5.0
    learner.loss(torch.eye(3).repeat(4, 1).roll(1, 1), torch.arange(12))
    learner.step()
    assert not torch.equal(*(each.label_distribution(torch.arange(12)) for each in (learner, again)))
    save_label_file(learner, tmp_path / "labels.safetensors")
    load_label_file(again, tmp_path / "labels.safetensors")
    assert torch.equal(*(each.label_distribution(torch.arange(12)) for each in (learner, again)))


def test_what_a_method_shares_goes_through_the_file_too(tmp_path):
    learner, again = learner_of(Forward()), learner_of(Forward())
    learner.shared = {"transition": torch.eye(3)}
    save_label_file(learner, tmp_path / "labels.safetensors")
    load_label_file(again, tmp_path / "labels.safetensors")
    assert torch.equal(again.shared["transition"], torch.eye(3))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(RunError, match=r"nothing\.safetensors is missing"):
        load_label_file(learner_of(), tmp_path / "nothing.safetensors")


def test_a_survey_sees_the_network_in_evaluation_and_leaves_its_modes():
    network = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Dropout(0.5), torch.nn.BatchNorm1d(3))
    network[2].eval()  # frozen
    modes = []

    def forward(inputs):
        modes.append((network[1].training, torch.is_grad_enabled()))
        return network(inputs)

    learner = learner_of(Forward())
    learner.epoch = 1.0  # the correction begins
    survey_rows(learner, network, forward, lambda: [(torch.eye(3).repeat(4, 1), torch.arange(12))])
    assert set(modes) == {(False, False)}
    assert [module.training for module in network] == [True, True, False]
    assert bool((learner.shared["transition"].sum(dim=1) - 1).abs().max() < 1e-5)


def test_a_survey_that_misses_rows_is_refused():
    learner, network = learner_of(Forward()), torch.nn.Linear(3, 3)
    learner.epoch = 1.0
    once = iter([(torch.eye(3).repeat(4, 1), torch.arange(12))])  # empty when the method looks again
    with pytest.raises(DataError, match="got 0 of 12 rows"):
        survey_rows(learner, network, network, lambda: once)


def test_a_survey_that_is_not_finite_is_not_believed():
    learner = learner_of(Forward())
    set_clock(learner, 1)
    batches = [(torch.full((12, 3), torch.nan), torch.arange(12))]
    with pytest.raises(NotFiniteError, match="survey: the network's predictions are not finite"):
        survey_rows(learner, torch.nn.Identity(), torch.nn.Identity(), lambda: batches)
    assert not learner.shared["transition"].any()
