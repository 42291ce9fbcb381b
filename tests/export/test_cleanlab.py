"""Arrays for cleanlab, and what cleanlab finds in them where it is installed."""

import numpy as np
import pytest
import torch

from pencil.algorithm import cut
from pencil.export.cleanlab import arrays
from pencil.results import judge
from pencil.run import judged_labels

pytestmark = pytest.mark.slow


def test_arrays_hold_given_labels_and_beliefs_in_the_order_of_rows(run, rows):
    made = arrays(*judged_labels(run))
    names = made["class_names"]
    assert made["ids"].tolist() == [row.id for row in rows]
    assert names[made["labels"]].tolist() == [row.given for row in rows]
    assert names[made["pred_probs"].argmax(axis=1)].tolist() == [row.suggested for row in rows]
    np.testing.assert_allclose(made["pred_probs"].sum(axis=1), 1, rtol=1e-5)
    assert all(array.dtype.kind in "ifU" for array in made.values())  # nothing that needs pickle


def test_cut_rows_become_whole():
    belief = torch.tensor([[0.7, 0.2, 0.1]])
    judged = judge(cut(belief.log(), 2).softmax(), torch.tensor([2]), 0.7, ids=["a"])
    made = arrays([judged], ["x", "y", "z"])
    np.testing.assert_allclose(made["pred_probs"], belief, atol=2e-3)
    assert made["labels"].tolist() == [2]


def test_cleanlab_takes_them_and_finds_most_wrong_labels(run, points):
    found = pytest.importorskip("cleanlab.filter")
    made = arrays(*judged_labels(run))
    issues = found.find_label_issues(made["labels"], made["pred_probs"], n_jobs=1)
    wrong = points.noisy != points.true
    assert issues.dtype == bool
    assert issues[wrong].mean() > 0.5
    assert issues[~wrong].mean() < 0.05
