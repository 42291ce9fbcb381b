"""Agreement of two opinions, against scikit-learn and by hand."""

import numpy as np
import pytest

from pencil.review import Review
from pencil.review.history import OvertakenError, Who
from pencil.review.opinions import kappa
from pencil.run import RunDirectory

ANN, BOB = Who("Ann", "window 1"), Who("Bob", "window 2")


def seen(items):
    return [(item["row"], item["version"]) for item in items]


@pytest.fixture
def run(make_run, tmp_path):
    return make_run(tmp_path, images=False)


@pytest.fixture
def first(run):
    """A review in which Ann kept twelve rows and dropped two."""
    review = Review(RunDirectory.open(run))
    items = review.take(ANN.client, 14)["items"]
    review.decide(ANN, "a", seen(items[:12]), "keep")
    review.decide(ANN, "b", seen(items[12:]), "drop")
    yield review
    review.close()


@pytest.fixture
def second(run, first):
    review = Review(RunDirectory.open(run), second_opinion=True)
    yield review
    review.close()


def test_kappa_is_that_of_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    one = rng.integers(4, size=300)
    other = np.where(rng.random(300) < 0.7, one, rng.integers(4, size=300))
    found = kappa(list(zip(one.tolist(), other.tolist(), strict=True)))
    assert found == pytest.approx(metrics.cohen_kappa_score(one, other))
    assert 0.5 < found < 0.8


@pytest.mark.parametrize(
    ("pairs", "value"),
    [
        ([], None),
        ([(1, 1), (1, 1)], None),  # both always say the same: nothing beyond chance is possible
        ([(1, 1), (2, 2)], 1.0),
        ([(1, 2), (2, 1)], -1.0),
        ([(1, 1), (None, None)], 1.0),  # dropped rows are a class of their own
        ([(1, 1), (1, 2), (2, 1), (2, 2)], 0.0),
    ],
)
def test_kappa_by_hand(pairs, value):
    assert kappa(pairs) == value


def test_decided_rows_come_again_without_the_decisions(first, second):
    decided = {entry["row"] for entry in first.recent()}
    answer = second.take(BOB.client, 96)
    assert {item["row"] for item in answer["items"]} == decided
    assert {item["version"] for item in answer["items"]} == {0}
    assert answer["progress"] == {"total": 14, "decided": 0}
    assert second.recent() == []
    assert second.start()["goal"] is None
    assert answer["forecast"] is None
    assert answer["agreement"] == {"both": 0, "agree": 0, "share": None, "kappa": None}


def test_agreement_and_disagreements_are_told_and_labels_stay(first, second, run):
    from pencil.results import read_decisions

    before = list(read_decisions(run))
    items = second.take(BOB.client, 96)["items"]
    dropped = {made.row for made in before if made.decision == "dropped"}
    same = [item for item in items if item["row"] not in dropped]
    second.decide(BOB, "c", seen(same[:9]), "keep")
    answer = second.decide(BOB, "d", seen(same[9:10]), "drop")
    assert answer["agreement"]["both"] == 10
    assert (answer["agreement"]["agree"], answer["agreement"]["share"]) == (9, 0.9)
    (differ,) = second.disagreements()
    assert (differ["first"]["reviewer"], differ["first"]["action"]) == ("Ann", "kept")
    assert (differ["second"]["reviewer"], differ["second"]["action"]) == ("Bob", "dropped")
    assert list(read_decisions(run)) == before
    assert first.progress()["decided"] == 14
    second.undo(BOB, "e")
    assert second.disagreements() == []


def test_an_undone_first_decision_comes_back_to_the_review_and_leaves_the_agreement(first, second, run):
    item = second.take(BOB.client)["items"][0]
    second.decide(BOB, "c", seen([item]), "choose", (item["given"] + 1) % 4)
    (differ,) = second.disagreements()
    answer = second.undo(BOB, "d", differ["first"]["entry"])
    assert [made["row"] for made in answer["undone"]] == [item["row"]]
    assert answer["agreement"]["both"] == 0
    assert first.progress()["decided"] == 13
    assert item["row"] in [found["row"] for found in first.take(ANN.client, 96)["items"]]
    with pytest.raises(OvertakenError):
        second.undo(BOB, "e", differ["first"]["entry"])
    again = Review(RunDirectory.open(run), second_opinion=True)
    assert again.progress() == {"total": 13, "decided": 0}
    again.close()


def test_rows_decided_later_join_the_next_start(first, second, run):
    more = first.take(ANN.client, 3)["items"]
    first.decide(ANN, "c", seen(more), "keep")
    assert second.progress()["total"] == 14
    again = Review(RunDirectory.open(run), second_opinion=True)
    assert again.progress()["total"] == 17
    again.close()
