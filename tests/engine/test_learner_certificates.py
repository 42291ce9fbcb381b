"""A learner warns where its settings prove that no label can flip, and only where the proof holds."""

import warnings

import pytest
import torch

from pencil import CrossEntropy, GivenLabels, LabelLearner, Pencil, flip_certificates, three_phases
from pencil.errors import PlanWarning

STUCK = Pencil(label_rate=0.2, pull=1.0, form="printed")
PHASES = three_phases(1, 5, 1, learning_rate=0.1, finetune_rate=0.1)
HARD = torch.tensor([0, 1, 2])
VOTES = torch.tensor([[6, 4, 0], [0, 3, 1], [1, 1, 2]])


def warnings_of(method, labels, phases=PHASES):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        LabelLearner(method, labels, phases)
    return caught


def test_every_certificate_is_a_warning_for_hard_labels():
    caught = warnings_of(STUCK, HARD)
    assert [warning.category for warning in caught] == [PlanWarning, PlanWarning]
    assert [str(warning.message) for warning in caught] == flip_certificates(STUCK, PHASES)


def test_the_warning_points_at_the_callers_line():
    assert {warning.filename for warning in warnings_of(STUCK, HARD)} == {__file__}


@pytest.mark.parametrize("labels", [VOTES, VOTES / VOTES.sum(1, keepdim=True), GivenLabels.of(VOTES)])
def test_soft_labels_get_no_flip_warning(labels):
    assert warnings_of(STUCK, labels) == []


def test_settings_under_which_labels_may_flip_get_no_warning():
    phases = three_phases(1, 30, 1, learning_rate=0.1, finetune_rate=0.1)
    assert warnings_of(Pencil(), HARD, phases) == []


def test_a_method_without_certificates_gets_no_warning():
    assert warnings_of(CrossEntropy(), HARD) == []
