"""How a learner keeps its rows: what it may start from, and how many it handles at a time."""

import pytest
import torch

from pencil.algorithm import Pencil, three_phases
from pencil.engine import LabelLearner
from pencil.errors import DataError
from pencil.methods import CrossEntropy


@pytest.mark.parametrize(
    "start", [torch.full((4, 3), -1.0), torch.full((4, 3), 2.0), torch.full((4, 3), torch.nan)]
)
def test_a_start_that_is_no_distribution_is_refused(start):
    with pytest.raises(
        DataError, match="start: row 0 is not a distribution; give probabilities that sum to 1"
    ):
        LabelLearner(
            Pencil(),
            torch.tensor([0, 1, 2, 0]),
            three_phases(1, 9, 1, learning_rate=0.1, finetune_rate=0.1),
            num_classes=3,
            start=start,
        )


def test_many_classes_are_handled_in_small_parts():
    """Methods without rows, and cut rows with a start, make tensors as wide as there are classes."""
    labels, phases = torch.arange(100) % 50, three_phases(1, 9, 1, learning_rate=0.1, finetune_rate=0.1)
    given = LabelLearner(CrossEntropy(), labels, phases, num_classes=1 << 20)
    assert given._chunk <= 16
    assert given.store.state()["values"].shape == (100, 0)
    assert given.labels().suggested.tolist() == labels.tolist()
    cut = LabelLearner(Pencil(), labels, phases, num_classes=1 << 15, store="top:4")
    assert cut._chunk > 16
    cut.start_from(cut.store)
    assert cut._chunk <= 512
