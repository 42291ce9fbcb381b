"""The baseline: Eq. 1 in every phase, nothing kept, nothing moved."""

import pytest
import torch

from pencil.algorithm import Moment, Phase, cross_entropy
from pencil.methods import CrossEntropy, Method, Pencil

HARD = torch.tensor([0, 2, 1])
SOFT = torch.tensor([[0.7, 0.2, 0.1], [0.0, 0.0, 1.0], [0.2, 0.6, 0.2]])


@pytest.mark.parametrize("given", [HARD, SOFT], ids=["hard", "soft"])
@pytest.mark.parametrize("phase", ["backbone", "correction", "finetune"])
def test_every_phase_is_equation_1_and_no_row_moves(phase, given):
    method: Method = CrossEntropy()
    logits = torch.randn(3, 3, generator=torch.Generator().manual_seed(0))
    moment = Moment(Phase(name=phase, epochs=1, learning_rate=0.1), 0.0)
    step = method.step(logits, method.start_rows(given, 3), given, moment)
    assert torch.equal(step.loss, cross_entropy(logits, given))
    assert step.rows is None


@pytest.mark.parametrize("given", [HARD, SOFT], ids=["hard", "soft"])
def test_rows_are_empty(given):
    method = CrossEntropy()
    assert method.row_width(3) == 0
    assert method.start_rows(given, 3).shape == (3, 0)


def test_the_given_labels_are_believed():
    method = CrossEntropy()
    assert torch.equal(method.label_distribution(torch.empty(3, 0), HARD, 3), torch.eye(3)[HARD])
    assert torch.equal(method.label_distribution(torch.empty(3, 0), SOFT, 3), SOFT)


def test_pencils_backbone_is_this_baseline():
    logits = torch.randn(3, 3, generator=torch.Generator().manual_seed(0))
    moment = Moment(Phase(name="backbone", epochs=1, learning_rate=0.1), 0.0)
    pencil = Pencil().step(logits, Pencil().start_rows(HARD, 3), HARD, moment)
    assert torch.equal(pencil.loss, CrossEntropy().step(logits, torch.empty(3, 0), HARD, moment).loss)


def test_methods_are_named():
    assert (CrossEntropy().name, Pencil().name) == ("cross_entropy", "pencil")
