"""The two likeliest classes of whole and cut rows, against loops."""

import pytest
import torch

from pencil.algorithm import TopRows, cut
from pencil.report.judged import NO_CLASS, judge
from pencil.results import VERDICTS, VerdictRule

RULE = VerdictRule()


def naive(probabilities, given):
    """One row, by sorting."""
    ranked = sorted(range(len(probabilities)), key=lambda index: -probabilities[index])
    best, second = ranked[:2]
    sure = probabilities[best] >= 0.7 and probabilities[best] - probabilities[second] >= 0.5
    verdict = ("keep" if best == given else "relabel") if sure else "review"
    return best, second, probabilities[best], probabilities[second], 1 - probabilities[given], verdict


@pytest.mark.parametrize("k", [None, 3])
def test_rows_are_judged_as_by_a_loop(random_rows, k):
    logits, given = random_rows(300, 7)
    rows = logits if k is None else cut(logits, k)
    belief = rows.softmax(dim=1) if k is None else rows.softmax()
    dense = belief if k is None else belief.dense()
    judged = judge(40, given, belief, RULE)
    assert judged.first == 40
    for row in range(300):
        best, second, sure, runner_up, doubt, verdict = naive(dense[row].tolist(), int(given[row]))
        assert int(judged.suggested[row]) == best
        assert int(judged.second[row]) == second
        assert float(judged.confidence[row]) == pytest.approx(sure)
        assert float(judged.runner_up[row]) == pytest.approx(runner_up)
        assert float(judged.doubt[row]) == pytest.approx(doubt, abs=1e-6)
        assert VERDICTS[int(judged.verdict[row])] == verdict
        assert bool(judged.changed[row]) == (best != int(given[row]))


@pytest.mark.parametrize("kept", [[0.4], [0.4, 0.15]])
def test_where_all_others_share_a_probability_no_second_class_stands_out(kept):
    rest = (1 - sum(kept)) / (5 - len(kept))
    rows = TopRows(torch.arange(len(kept))[None], torch.tensor([kept]), torch.tensor([[rest]]), 5)
    judged = judge(0, torch.tensor([0]), rows, RULE)
    assert int(judged.second[0]) == NO_CLASS
    assert float(judged.runner_up[0]) == pytest.approx(0.15)
