"""Decisions, undos and versions; every one of them an entry that stays."""

import sqlite3

import numpy as np
import pytest

from pencil.results import last_entry, read_decisions
from pencil.review.database import Database
from pencil.review.history import Choice, History, OvertakenError, TicketError, Who
from pencil.review.orders import Order
from pencil.review.queue import Part, Queue

ANN, BOB = Who("Ann", "window 1"), Who("Bob", "window 2")


@pytest.fixture
def history(tmp_path):
    database = Database(tmp_path / "review.sqlite")
    queue = Queue(database)
    with database.writing():
        queue.fill({}, {"doubtful": Part("", lambda: Order(np.arange(10, 20), np.ones(10, np.float32)))})
    yield History(database, queue)
    database.close()


def seen(place, version=0):
    """The row at a place of the queue, as it was shown."""
    return place + 9, b"row \xff%d" % place, version


def decide(history, who, ticket, item, action, label=None):
    with history.database.writing():
        (made,) = history.decide(who, ticket, [Choice(*item, action, label)])
        return made


def decide_all(history, who, ticket, *choices):
    with history.database.writing():
        return history.decide(who, ticket, [Choice(*item, *rest) for item, *rest in choices])


def undo_all(history, who, ticket, entry=None):
    with history.database.writing():
        return history.undo(who, ticket, entry)


def undo(history, who, ticket, entry=None):
    return next(iter(undo_all(history, who, ticket, entry)), None)


def standing(history, entry=None):
    folder = history.database.path.parent
    return [(made.row, made.decision, made.label) for made in read_decisions(folder, entry)]


def test_a_decision_is_entered_with_who_and_when(history, tmp_path):
    made = decide(history, ANN, "t1", seen(2), "changed", 3)
    assert (made.entry, made.row, made.version, made.reviewer) == (1, 11, 1, "Ann")
    assert made.at.endswith("+00:00")
    (found,) = read_decisions(tmp_path)
    assert (found.row, found.id, found.decision, found.label) == (11, "row \udcff2", "changed", 3)


def test_the_second_decision_on_the_same_state_is_refused_and_told_the_first(history):
    first = decide(history, ANN, "t1", seen(1), "accepted", 2)
    with pytest.raises(OvertakenError) as caught:
        decide(history, BOB, "t2", seen(1), "kept", 0)
    assert caught.value.entry == first
    assert standing(history) == [(10, "accepted", 2)]


def test_a_decided_item_is_not_decided_again_even_by_who_knows_its_version(history):
    decide(history, ANN, "t1", seen(1), "accepted", 2)
    with pytest.raises(OvertakenError):
        decide(history, ANN, "t2", seen(1, version=1), "kept", 0)


def test_a_decision_on_what_was_undone_meanwhile_is_refused(history):
    decide(history, ANN, "t1", seen(1), "accepted", 2)
    undo(history, ANN, "t2")
    with pytest.raises(OvertakenError) as caught:
        decide(history, BOB, "t3", seen(1), "kept", 0)
    assert caught.value.entry.action == "undone"
    assert decide(history, BOB, "t4", seen(1, version=2), "kept", 0).version == 3


def test_a_ticket_is_carried_out_once(history):
    first = decide(history, ANN, "same", seen(1), "accepted", 2)
    assert decide(history, ANN, "same", seen(1), "accepted", 2) == first
    back = undo(history, ANN, "undo")
    assert undo(history, ANN, "undo") == back
    assert last_entry(history.database.path.parent) == 2


def test_a_ticket_is_one_clients_for_one_request(history):
    decide(history, ANN, "decided", seen(1), "accepted", 2)
    decide(history, ANN, "skipped", seen(2), "skipped")
    undo(history, ANN, "undone", 1)
    others = [
        lambda: decide(history, BOB, "decided", seen(1), "accepted", 2),
        lambda: decide(history, ANN, "decided", seen(3), "accepted", 2),
        lambda: decide(history, ANN, "decided", seen(1), "accepted", 3),
        lambda: decide(history, ANN, "decided", seen(1), "kept", 2),
        lambda: decide(history, BOB, "skipped", seen(2), "skipped"),
        lambda: decide(history, ANN, "undone", seen(1, version=2), "kept", 0),
        lambda: undo(history, ANN, "decided"),
        lambda: undo(history, ANN, "decided", 1),
        lambda: undo(history, BOB, "undone"),
        lambda: undo(history, BOB, "undone", 1),
        lambda: undo(history, ANN, "undone", 2),
    ]
    for other in others:
        with pytest.raises(TicketError) as caught:
            other()
        assert str(caught.value) == "ticket: already used for another request; send a new one"
    assert last_entry(history.database.path.parent) == 3


def test_undo_goes_back_one_by_one_through_ones_own(history):
    decide(history, ANN, "t1", seen(1), "accepted", 2)
    decide(history, BOB, "t2", seen(2), "kept", 0)
    decide(history, ANN, "t3", seen(3), "dropped")
    assert standing(history) == [(10, "accepted", 2), (11, "kept", 0), (12, "dropped", None)]
    assert undo(history, ANN, "t4").row == 12
    assert undo(history, ANN, "t5").row == 10
    assert undo(history, ANN, "t6") is None
    assert standing(history) == [(11, "kept", 0)]
    assert history.queue.progress()["decided"] == 1


def test_what_stood_after_any_entry_can_be_told_again(history):
    decide(history, ANN, "t1", seen(1), "accepted", 2)
    undo(history, ANN, "t2")
    decide(history, ANN, "t3", seen(1, version=2), "kept", 1)
    assert [standing(history, entry) for entry in range(4)] == [
        [],
        [(10, "accepted", 2)],
        [],
        [(10, "kept", 1)],
    ]


def test_an_entry_by_number_may_be_anybodys_and_is_taken_back_once(history):
    made = decide(history, ANN, "t1", seen(1), "accepted", 2)
    taken = undo(history, BOB, "t2", made.entry)
    assert (taken.reviewer, taken.undoes) == ("Bob", made.entry)
    with pytest.raises(OvertakenError) as caught:
        undo(history, ANN, "t3", made.entry)
    assert caught.value.entry == taken
    with pytest.raises(OvertakenError):
        undo(history, ANN, "t4", taken.entry)


def test_a_skip_is_no_decision_and_can_be_taken_back(history):
    with history.database.writing():
        assert history.queue.take(ANN.client) == [10]
    decide(history, ANN, "t1", seen(1), "skipped")
    assert standing(history) == []
    assert history.version(10) == 0
    with history.database.writing():
        assert history.queue.take(ANN.client) == [11]
    assert undo(history, ANN, "t2").row == 10
    with history.database.writing():
        assert history.queue.take(ANN.client) == [10]


def test_the_newest_decisions_that_stand(history):
    for place in (1, 2, 3):
        decide(history, ANN, f"t{place}", seen(place), "kept", 0)
    decide(history, ANN, "t4", seen(4), "skipped")
    undo(history, ANN, "t5", entry=2)
    assert [made.row for made in history.newest(5)] == [12, 10]
    assert [made.row for made in history.newest(1)] == [12]


def test_several_rows_are_decided_together_and_undone_together(history):
    single = decide(history, ANN, "t1", seen(4), "kept", 1)
    made = decide_all(
        history, ANN, "t2", (seen(1), "accepted", 2), (seen(2), "kept", 0), (seen(3), "dropped")
    )
    assert [(entry.row, entry.action, entry.request) for entry in made] == [
        (10, "accepted", made[0].entry),
        (11, "kept", made[0].entry),
        (12, "dropped", made[0].entry),
    ]
    assert history.queue.progress()["decided"] == 4
    assert undo(history, BOB, "t3", made[1].entry).row == 11  # one of them, on its own
    back = undo_all(history, ANN, "t4")
    assert [entry.row for entry in back] == [10, 12]
    assert undo_all(history, ANN, "t4") == back
    assert standing(history) == [(13, "kept", 1)]
    assert undo(history, ANN, "t5").undoes == single.entry


def test_several_rows_are_recorded_completely_or_not_at_all(history):
    theirs = decide(history, BOB, "t1", seen(2), "kept", 0)
    with pytest.raises(OvertakenError) as caught:
        decide_all(history, ANN, "t2", (seen(1), "dropped"), (seen(2), "dropped"), (seen(3), "dropped"))
    assert caught.value.entry == theirs
    assert standing(history) == [(11, "kept", 0)]
    assert history.queue.progress()["decided"] == 1


def test_a_repeated_request_for_several_rows_is_carried_out_once(history):
    choices = [(seen(1), "accepted", 2), (seen(2), "kept", 0)]
    made = decide_all(history, ANN, "same", *choices)
    assert decide_all(history, ANN, "same", *choices) == made
    for others in (choices[:1], choices[::-1], [*choices, (seen(3), "dropped")]):
        with pytest.raises(TicketError):
            decide_all(history, ANN, "same", *others)
    assert last_entry(history.database.path.parent) == 2


def test_another_round_leaves_the_decisions_unchanged(history):
    first = decide(history, ANN, "t1", seen(1), "accepted", 2)
    other = History(history.database, Queue(history.database, round="second"))
    second = decide(other, BOB, "t2", seen(1), "kept", 0)
    assert (first.round, second.round, second.version) == ("first", "second", 1)
    assert standing(history) == [(10, "accepted", 2)]
    assert (history.newest(5), other.newest(5)) == ([first], [second])
    assert undo(other, ANN, "t3") is None  # Ann has no entry in this round
    assert undo(other, BOB, "t4", first.entry).round == "first"  # by its number
    assert standing(history) == []
    assert (history.version(10), other.version(10)) == (2, 1)


@pytest.mark.parametrize("change", ["UPDATE history SET reviewer = 'Bob'", "DELETE FROM history"])
def test_entries_stay(history, tmp_path, change):
    decide(history, ANN, "t1", seen(1), "accepted", 2)
    with (
        sqlite3.connect(tmp_path / "review.sqlite") as other,
        pytest.raises(sqlite3.IntegrityError, match="append-only"),
    ):
        other.execute(change)
    other.close()


def test_what_fails_midway_leaves_no_trace(history):
    def failing():
        with history.database.writing():
            history.decide(ANN, "t1", [Choice(*seen(1), "accepted", 2)])
            raise KeyError

    with pytest.raises(KeyError):
        failing()
    assert standing(history) == []
    assert history.queue.progress()["decided"] == 0


def test_a_review_is_synced_at_every_commit(history):
    assert history.database.find("PRAGMA synchronous") == (2,)
    assert history.database.find("PRAGMA journal_mode") == ("wal",)
