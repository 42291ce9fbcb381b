"""Decisions that were made elsewhere, in the history of a review."""

import pytest

from pencil.results import read_decisions, was_reviewed
from pencil.results.decisions import last_entry
from pencil.review import Review
from pencil.review.elsewhere import MadeElsewhere, newest_recorded, record
from pencil.review.history import Who
from pencil.review.opinions import SECOND
from pencil.run import LabelTable, RunDirectory


@pytest.fixture
def run(make_run, tmp_path):
    return RunDirectory.open(make_run(tmp_path, images=False))


def made(run, row, label):
    judged = LabelTable.open(run, entry=0).row(row)
    return MadeElsewhere(row, judged.ids[0], label, int(judged.given), int(judged.suggested), "ann")


def decisions(run):
    return {each.row: each.label for each in read_decisions(run.path)}


def test_they_are_decisions_and_repeating_them_changes_nothing(run):
    for _ in range(2):
        record(run, "one", [made(run, 3, 1), made(run, 5, 0)])
    assert decisions(run) == {3: 1, 5: 0}
    assert last_entry(run.path) == 2


def test_the_action_follows_from_the_labels():
    of = {label: MadeElsewhere(0, "a", label, 1, 2, "ann").action for label in (0, 1, 2)}
    assert of == {0: "changed", 1: "kept", 2: "accepted"}


def test_a_source_replaces_its_own_decision_alone(run):
    record(run, "one", [made(run, 3, 1)])
    record(run, "other", [made(run, 3, 0)])
    assert decisions(run) == {3: 1}
    record(run, "one", [made(run, 3, 0)])
    assert decisions(run) == {3: 0}


def test_second_opinions_are_compared_and_leave_the_first(run):
    record(run, "one", [made(run, 3, 1), made(run, 5, 0)])
    record(run, "one", [made(run, 3, 1), made(run, 5, 1)], round_=SECOND)
    assert decisions(run) == {3: 1, 5: 0}
    review = Review(run, second_opinion=True)
    assert review.start()["agreement"]["agree"] == 1
    assert len(review.disagreements()) == 1
    review.close()


def test_a_review_does_not_ask_about_them_again(run):
    review = Review(run)
    (first,) = review.take("tab")["items"]
    before = review.progress()
    record(run, "one", [made(run, first["row"], 1)])
    assert review.progress() == {"total": before["total"], "decided": before["decided"] + 1}
    review.close()


def test_the_order_follows_answers_from_elsewhere_and_not_the_decisions_on_the_page(run):
    assert newest_recorded(run.path) == 0
    review = Review(run)
    (first,) = review.take("tab")["items"]
    review.decide(Who("ann", "tab"), "ticket", [(first["row"], first["version"])], "keep")
    assert (last_entry(run.path), newest_recorded(run.path)) == (1, 0)
    others = [row for row in range(4) if row != first["row"]]
    record(run, "one", [made(run, row, 1) for row in others])
    assert newest_recorded(run.path) == last_entry(run.path) == 1 + len(others)
    review.close()


def test_an_answer_that_is_taken_back_leaves_no_decision(run):
    record(run, "one", [made(run, 3, 1)])
    record(run, "one", [made(run, 3, None)])
    record(run, "one", [made(run, 5, None)])
    assert decisions(run) == {}


def test_nothing_to_record_begins_no_review(run):
    record(run, "one", [])
    assert not was_reviewed(run.path)
