"""The start with many classes, with few enough for a test."""

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture
def many(imported):
    with imported("many_classes") as module:
        yield module


def test_labels_are_right_more_often_than_given_and_cut_rows_keep_them(many, monkeypatch):
    monkeypatch.setattr(many, "QUICK_CLASSES", 60)
    figures = many.measure(quick=True, seed=0)
    assert figures["rows"] == 60 * many.ROWS
    assert figures["given_right"] == pytest.approx(100 * (1 - many.NOISE), abs=8)
    assert figures["start_right"] > figures["given_right"] + 10
    assert figures["cut_right"] == figures["start_right"]
    assert figures["all_seconds"] >= figures["fit_seconds"] > 0


def test_a_wrong_label_is_of_another_class(many):
    _, truth, given = many.made(50, seed=1)
    wrong = given != truth
    assert 0.25 < wrong.float().mean() < 0.55
    assert given.min() >= 0
    assert given.max() < 50
