"""Rows judged, against loops: whole rows and cut ones, with trusted rows and decisions."""

import pytest
import torch
from hypothesis import given as drawn
from hypothesis import strategies as st

from pencil.algorithm import TopRows, cut
from pencil.results import KEEP, RELABEL, REVIEW, VERDICTS, Decided, VerdictRule, judge, judge_all
from pencil.results.judged import DECISIONS, NO_CLASS, certain, runners_up, verdict_of

LEAST = 0.7


def judged_rows(belief, given, least=LEAST, **more):
    return judge(belief, given, least, ids=[f"id {row}" for row in range(len(belief))], **more)


def naive(probabilities, given, least=LEAST):
    """One row, by sorting."""
    ranked = sorted(range(len(probabilities)), key=lambda index: -probabilities[index])
    best, second = ranked[:2]
    verdict = "keep"
    if best != given or 1 - probabilities[given] > 0.5:
        verdict = "relabel" if best != given and probabilities[best] >= least else "review"
    return best, second, probabilities[best], probabilities[second], 1 - probabilities[given], verdict


@pytest.mark.parametrize("k", [None, 3])
def test_rows_are_judged_as_by_a_loop(k):
    generator = torch.Generator().manual_seed(5)
    logits = 4 * torch.randn(300, 7, generator=generator)
    given = torch.randint(7, (300,), generator=generator)
    rows = logits if k is None else cut(logits, k)
    belief = rows.softmax(dim=1) if k is None else rows.softmax()
    dense = belief if k is None else belief.dense()
    judged = judged_rows(belief, given, first=40)
    runner_up, second = runners_up(belief, judged.suggested)
    assert judged.first == 40
    assert len(judged) == 300
    assert judged.num_classes == 7
    for row in range(300):
        best, next_best, sure, next_sure, wrong, verdict = naive(dense[row].tolist(), int(given[row]))
        assert int(judged.suggested[row]) == best
        assert int(second[row]) == next_best
        assert float(judged.confidence[row]) == pytest.approx(sure)
        assert float(runner_up[row]) == pytest.approx(next_sure)
        assert float(judged.p_wrong[row]) == pytest.approx(wrong, abs=1e-6)
        assert VERDICTS[int(judged.verdict[row])] == verdict
        assert bool(judged.changed[row]) == (best != int(given[row]))


@drawn(st.integers(2, 7), st.integers(0, 2**31), st.floats(0, 1))
def test_verdicts_equal_a_naive_loop(classes, seed, least):
    generator = torch.Generator().manual_seed(seed)
    belief = (4 * torch.randn(20, classes, generator=generator, dtype=torch.float64)).softmax(dim=1)
    given = torch.randint(classes, (20,), generator=generator)
    expected = [
        naive(row, label, least)[-1] for row, label in zip(belief.tolist(), given.tolist(), strict=True)
    ]
    assert [VERDICTS[verdict] for verdict in judged_rows(belief, given, least).verdict.tolist()] == expected


@pytest.mark.parametrize(
    ("row", "verdict"),
    [
        ([0.9, 0.06, 0.04], KEEP),
        ([0.52, 0.48, 0.0], KEEP),
        ([0.06, 0.9, 0.04], RELABEL),
        ([0.35, 0.4, 0.25], REVIEW),
        ([0.4, 0.35, 0.25], REVIEW),
    ],
    ids=["sure of the given", "for the given", "sure of another", "for another", "against the given"],
)
def test_the_rule_as_documented(row, verdict):
    assert judged_rows(torch.tensor([row]), torch.tensor([0])).verdict.tolist() == [verdict]


def test_thresholds_by_class():
    belief = torch.tensor([[0.2, 0.8], [0.8, 0.2]])
    judged = judged_rows(belief, torch.tensor([0, 1]), torch.tensor([0.9, 0.7]))
    assert judged.verdict.tolist() == [REVIEW, RELABEL]


def test_a_whole_data_set_keeps_to_the_asked_share():
    sure = torch.tensor([0.98] * 100 + [0.82] * 60 + [0.6] * 40 + [0.1] * 100)
    belief = torch.stack([1 - sure, sure], dim=1)
    given, ids = torch.zeros(300, dtype=torch.long), [str(row) for row in range(300)]

    def verdicts(asked, trusted=None):
        rule = VerdictRule(max_false_relabels=asked, class_floor=0.0)
        return judge_all(belief, given, rule, ids=ids, trusted=trusted)

    lots = [*range(0, 300, 100)]
    assert verdicts(0.12).verdict[[0, 99, 100, 160, 200]].tolist() == [
        RELABEL,
        RELABEL,
        RELABEL,
        REVIEW,
        KEEP,
    ]
    assert verdicts(0.04).verdict[[0, 99, 100, 160, 200]].tolist() == [RELABEL, RELABEL, REVIEW, REVIEW, KEEP]
    judged = verdicts(0.12, trusted=torch.arange(300) < 50)
    assert judged.verdict[[0, 50, 100, 200]].tolist() == [KEEP, RELABEL, REVIEW, KEEP]
    assert judged.p_wrong[lots].tolist() == pytest.approx([0, 0.82, 0.1])


@pytest.mark.parametrize("kept", [[0.4], [0.4, 0.15]])
def test_if_all_others_share_a_probability_there_is_no_second_class(kept):
    rest = (1 - sum(kept)) / (5 - len(kept))
    rows = TopRows(torch.arange(len(kept))[None], torch.tensor([kept]), torch.tensor([[rest]]), 5)
    runner_up, second = runners_up(rows, torch.tensor([0]))
    assert int(second[0]) == NO_CLASS
    assert float(runner_up[0]) == pytest.approx(0.15)


def test_a_trusted_row_is_kept_however_unsure_the_belief_is():
    belief = torch.tensor([[0.4, 0.3, 0.3], [0.4, 0.3, 0.3]])
    judged = judged_rows(belief, torch.tensor([1, 1]), trusted=torch.tensor([True, False]))
    assert judged.verdict.tolist() == [KEEP, REVIEW]
    assert [part.trusted.tolist() for part in judged.split(1)] == [[True], [False]]


def test_a_decision_replaces_label_confidence_and_verdict_even_of_a_trusted_row():
    belief = torch.tensor([[0.4, 0.3, 0.3]]).repeat(5, 1)
    label = torch.tensor([NO_CLASS, 2, 1, 0, NO_CLASS])
    decided = Decided(torch.arange(5), label)
    judged = judged_rows(
        belief, torch.ones(5, dtype=torch.long), decided=decided, trusted=torch.ones(5).bool()
    )
    assert [VERDICTS[verdict] for verdict in judged.verdict.tolist()] == [
        "keep",
        "relabel",
        "keep",
        "relabel",
        "drop",
    ]
    assert judged.suggested.tolist() == [1, 2, 1, 0, 1]
    assert judged.confidence.tolist() == [1.0] * 5
    assert judged.p_wrong.tolist() == [0.0, 1.0, 0.0, 1.0, 0.0]
    assert judged.is_decided.tolist() == [False, True, True, True, True]
    for decision in DECISIONS[1:]:
        assert verdict_of(decision) == VERDICTS[int(judged.verdict[DECISIONS.index(decision)])]


def test_rows_without_labels_and_with_unknown_classes():
    belief = torch.tensor([[0.9, 0.1], [0.2, 0.8]])
    assert not judged_rows(belief, None).has_given
    judged = judged_rows(belief, torch.tensor([5, 1]))
    assert judged.has_given
    assert judged.verdict.tolist() == [RELABEL, KEEP]
    assert judged.p_wrong.tolist() == pytest.approx([1.0, 0.2])


def test_parts_are_judged_as_the_whole():
    belief = torch.rand(10, 4, generator=torch.Generator().manual_seed(2)).softmax(dim=1)
    decided = Decided(torch.arange(10) % 5, torch.full((10,), NO_CLASS))
    judged = judged_rows(belief, torch.arange(10) % 4, first=7, decided=decided)
    parts = list(judged.split(3))
    assert [part.first for part in parts] == [7, 10, 13, 16]
    assert [name for part in parts for name in part.ids] == list(judged.ids)
    for field in (
        "distribution",
        "given",
        "suggested",
        "confidence",
        "p_wrong",
        "verdict",
        "trusted",
        "decision",
    ):
        assert torch.equal(torch.cat([getattr(part, field) for part in parts]), getattr(judged, field)), field


@pytest.mark.parametrize("labels", [[9, 0], [3, 3]])
def test_certainty_of_cut_rows_is_that_of_whole_ones(labels):
    whole = torch.rand(5, 10, generator=torch.Generator().manual_seed(1)).softmax(dim=1)
    top, places, chosen = cut(whole.log(), 4).softmax(), torch.tensor([4, 1]), torch.tensor(labels)
    found = certain(top, places, chosen)
    assert torch.equal(found.dense(), certain(top.dense(), places, chosen))
    assert found.max(dim=1).indices[places].tolist() == labels
    assert len(found.classes[4].unique()) == 4


def test_nothing_decided_changes_nothing():
    whole = torch.rand(3, 4)
    none = torch.empty(0, dtype=torch.int64)
    assert torch.equal(certain(whole, none, none), whole)


@pytest.mark.parametrize(("field", "value"), [("max_false_relabels", 1.5), ("class_floor", -0.1)])
def test_a_share_beyond_its_bounds_is_refused(field, value):
    with pytest.raises(ValueError, match=rf"{field}: {value} must be between 0 and 1"):
        VerdictRule(**{field: value})
