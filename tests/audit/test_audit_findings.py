"""What answers show: the threshold that is certified where the whole set is not."""

import numpy as np
import pytest

from pencil.audit import findings, sentences, suggested_looks
from pencil.audit.draw import looks
from pencil.audit.labels import nested_sets
from pencil.audit.record import Answer, Audit, Draw, Item, Plan


def small(bound, checked, wrong, size=20):
    """An audit of a few changed labels, the first of which are wrong."""
    plan = Plan(
        **{
            "what": "relabels",
            "bound": bound,
            "seed": 1,
            "alpha": 0.05,
            "max_error": 0.1,
            "rule": {},
            "labels": "",
        },
        **{
            "sizes": {"relabel": size},
            "mean_p_wrong": {"relabel": 0.9},
            "thresholds": [],
            "versions": {},
            "at": "",
        },
    )
    shown = {"row": 0, "id": "", "given": "a", "suggested": "b", "p_wrong": 0.9, "choices": ["a", "b"]}
    items = [
        Item(**look._asdict(), **shown, confidence=0.9)
        for look in looks(1, plan.sizes, [{"relabel": checked}])
    ]
    first = [item.number for item in items if item.again is None]
    answers = [
        Answer(
            look=item.number,
            label="a" if (item.again or item.number) in first[:wrong] else "b",
            auditor="",
            at="",
        )
        for item in items
    ]
    return Audit(plan, [Draw(counts={"relabel": checked}, answered=0, items=items)], answers)


@pytest.mark.parametrize(
    ("bound", "checked", "wrong", "said"),
    [
        ("live", 20, 3, "10 % cannot be certified: it allows 2 errors in 20 labels"),
        ("live", 10, 3, "10 % cannot be certified: it allows 2 errors in 20 labels"),
        ("exact", 20, 3, "10 % cannot be certified: it allows 2 errors in 20 labels"),
        ("exact", 10, 2, "a sample of 20 with 2 errors would certify 10 %"),
        ("live", 10, 0, "4 further checks without an error would certify 10 %"),
    ],
)
def test_only_what_is_possible_is_promised(bound, checked, wrong, said):
    found = findings(small(bound, checked, wrong))
    assert said in sentences(small(bound, checked, wrong), found)


SIZE, CHECKED = 1000, 300


@pytest.fixture
def audit():
    """1,000 changed labels by ascending confidence; the least sure fifth is wrong."""
    confidence = np.linspace(0.5, 1, SIZE, dtype=np.float32)
    plan = Plan(
        what="relabels",
        bound="exact",
        seed=1,
        alpha=0.05,
        max_error=0.05,
        rule={},
        labels="",
        sizes={"relabel": SIZE},
        mean_p_wrong={"relabel": 0.9},
        thresholds=nested_sets(confidence, CHECKED, 0.05, 0.05),
        versions={},
        at="",
    )
    shown = {"row": 0, "id": "", "given": "a", "suggested": "b", "p_wrong": 0.9, "choices": ["a", "b"]}
    items = [
        Item(**look._asdict(), **shown, confidence=float(confidence[look.place]))
        for look in looks(1, plan.sizes, [{"relabel": CHECKED}])
    ]
    answers = [
        Answer(look=item.number, label="a" if item.place < SIZE // 5 else "b", auditor="", at="")
        for item in items
    ]
    return Audit(plan, [Draw(counts={"relabel": CHECKED}, answered=0, items=items)], answers)


def test_a_threshold_is_certified_where_the_whole_set_is_not(audit):
    found = findings(audit)
    relabels = found["relabels"]
    assert not relabels["certified"]
    assert relabels["at_most"] >= SIZE // 5
    passed = [each for each in relabels["thresholds"] if each["certified"]]
    assert 600 <= passed[-1]["size"] <= 840
    assert passed[-1]["errors"] / passed[-1]["checked"] < 0.05
    said = sentences(audit, found)
    assert f"the {passed[-1]['size']} changed labels with confidence " in " ".join(said)
    assert "5 % cannot be certified: it allows 50 errors in 1,000 labels" in said  # the sample has more


def test_nested_sets_are_fixed_by_the_size_of_the_sample():
    confidence = np.repeat(np.linspace(0.5, 1, 100, dtype=np.float32), 10)
    few, many = (nested_sets(confidence, checked, 0.05, 0.05) for checked in (60, 500))
    assert [each.size for each in few] == [1000]
    sizes = [each.size for each in many]
    assert sizes == sorted(set(sizes))
    assert len(sizes) == 8
    assert sizes[-1] == 1000
    assert sizes[0] * 500 / 1000 >= suggested_looks(
        sizes[0], 0.05, 0.05
    )  # enough of the sample falls into it
    for each in many:
        assert each.size == int((confidence >= np.float32(each.confidence)).sum())
    assert nested_sets(confidence[:0], 60, 0.05, 0.05) == []
