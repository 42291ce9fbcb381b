"""Which client gets which rows, and when."""

import numpy as np
import pytest

from pencil.errors import RunError
from pencil.review.database import Database
from pencil.review.history import Choice, History, Who
from pencil.review.orders import Order
from pencil.review.queue import Part, Queue

ABOUT = {"rows": "9"}


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def part(rows, chances=None, source="one"):
    chances = np.linspace(1, 0, len(rows)) if chances is None else chances
    return Part(source, lambda: Order(np.array(rows, dtype=np.int64), np.array(chances, dtype=np.float32)))


@pytest.fixture
def make_queue(tmp_path, clock):
    def make(parts=None, round_="first"):
        queue = Queue(Database(tmp_path / "review.sqlite"), clock, lease_seconds=60, round=round_)
        with queue.database.writing():
            queue.fill(ABOUT, {"doubtful": part((5, 3, 8))} if parts is None else parts)
        return queue

    return make


@pytest.fixture
def queue(make_queue):
    return make_queue()


def take_all(queue, client, count):
    with queue.database.writing():
        return queue.take(client, count)


def take(queue, client):
    rows = take_all(queue, client, 1)
    return rows[0] if rows else None


def decide(queue, row, ticket):
    with queue.database.writing():
        history = History(queue.database, queue)
        history.decide(Who("Ann", "a"), ticket, [Choice(row, b"id", history.version(row), "dropped")])


def test_rows_come_in_order_and_a_client_gets_its_reserved_row_again(queue):
    assert take(queue, "ann") == 5
    assert take(queue, "ann") == 5
    assert take(queue, "bob") == 3
    assert take(queue, "cem") == 8
    assert take(queue, "dan") is None


def test_several_rows_are_reserved_at_once_and_others_get_the_rest(make_queue):
    queue = make_queue({"doubtful": part(range(10))})
    assert take_all(queue, "ann", 4) == [0, 1, 2, 3]
    assert take_all(queue, "bob", 3) == [4, 5, 6]
    with queue.database.writing():
        queue.close(1)
        queue.close(2)
    assert take_all(queue, "ann", 4) == [0, 3, 7, 8]
    assert take_all(queue, "cem", 4) == [9]
    assert take_all(queue, "ann", 1) == [0]  # releases the others
    assert take_all(queue, "cem", 4) == [9, 3, 7, 8]  # its own first


def test_a_lease_ends_and_the_row_goes_to_the_next_client(queue, clock):
    assert take(queue, "ann") == 5
    clock.now += 59
    assert take(queue, "bob") == 3
    clock.now += 2
    assert take(queue, "cem") == 5
    assert take(queue, "ann") == 8  # its own was given away
    clock.now += 61
    assert take(queue, "ann") == 5


def test_looking_again_renews_the_lease(queue, clock):
    for _ in range(4):
        assert take(queue, "ann") == 5
        clock.now += 50
    assert take(queue, "bob") == 3


def test_decided_rows_do_not_come_and_count_as_progress(queue):
    with queue.database.writing():
        queue.close(5)
    assert queue.progress() == {"total": 3, "decided": 1}
    assert take(queue, "ann") == 3
    with queue.database.writing():
        queue.open_again(5, "first")
    assert queue.progress() == {"total": 3, "decided": 0}
    assert take(queue, "bob") == 5


def test_skipped_rows_come_last_for_the_client_that_skipped_them_oldest_skip_first(queue):
    with queue.database.writing():
        queue.set_aside(3, "ann", entry=1)
        queue.set_aside(5, "ann", entry=2)
    assert take(queue, "bob") == 5
    with queue.database.writing():
        queue.close(5)
    assert take(queue, "ann") == 8
    with queue.database.writing():
        queue.close(8)
        queue.open_again(5, "first")
    assert take(queue, "ann") == 3
    with queue.database.writing():
        queue.set_aside(3, "ann", entry=3)
    assert take(queue, "ann") == 5  # skipped longer ago
    with queue.database.writing():
        queue.take_back([3], "ann")
    assert take(queue, "ann") == 3


def test_filling_again_from_the_same_source_changes_nothing(make_queue):
    first = make_queue()
    decide(first, 5, "t1")
    again = make_queue({"doubtful": part((1, 2))})
    assert again.progress() == {"total": 3, "decided": 1}
    assert take_all(again, "ann", 9) == [3, 8]


def test_another_source_makes_the_order_again_and_decisions_stay(make_queue):
    decide(make_queue(), 5, "t1")
    again = make_queue({"doubtful": part((8, 5, 1), source="two")})
    assert again.progress() == {"total": 3, "decided": 1}
    assert take_all(again, "ann", 9) == [8, 1]


def test_orders_share_decisions_by_row_also_undone_ones(make_queue):
    clean = make_queue({"clean": part((5, 3, 8))})
    decide(clean, 3, "t1")
    relabel = make_queue({"relabel": part((8, 3, 4, 5))})
    assert relabel.progress() == {"total": 4, "decided": 1}
    decide(relabel, 8, "t2")
    assert clean.progress() == {"total": 3, "decided": 2}
    assert take_all(clean, "ann", 9) == [5]
    assert take_all(relabel, "bob", 9) == [4]  # reservations are shared too
    with relabel.database.writing():
        relabel.open_again(3, "first")
    assert [queue.progress()["decided"] for queue in (clean, relabel)] == [1, 1]
    assert take_all(clean, "ann", 9) == [5, 3]


def test_rounds_share_neither_decisions_nor_reservations(make_queue):
    first = make_queue()
    second = make_queue({"second": part((5, 3))}, round_="second")
    assert take(first, "ann") == 5
    assert take(second, "bob") == 5
    with second.database.writing():
        second.close(5)
    assert (first.progress()["decided"], second.progress()["decided"]) == (0, 1)
    assert take(first, "ann") == 5


def test_parts_follow_each_other_when_asked_for_and_only_then(make_queue):
    both = {"doubtful": part((5, 3, 8)), "sure": part((0, 7))}
    with make_queue().database.writing() as _:
        pass
    queue = make_queue(both)
    assert queue.progress() == {"total": 5, "decided": 0}
    with queue.database.writing():
        for row in (5, 3, 8, 0):
            queue.close(row)
    assert take(queue, "ann") == 7
    without = make_queue()
    assert without.progress() == {"total": 3, "decided": 3}
    assert take(without, "ann") is None


def test_the_chances_of_the_next_open_rows(make_queue):
    queue = make_queue({"doubtful": part((5, 3), (0.75, 0.5)), "sure": part((0, 7), (0.25, 0.125))})
    assert queue.chances(3) == [0.75, 0.5, 0.25]
    with queue.database.writing():
        queue.close(3)
    assert queue.chances(9) == [0.75, 0.25, 0.125]


def test_an_empty_queue_has_nothing_to_do(make_queue):
    queue = make_queue({"doubtful": part(())})
    assert take(queue, "ann") is None
    assert queue.progress() == {"total": 0, "decided": 0}


def test_a_queue_of_other_labels_is_refused(queue):
    with pytest.raises(RunError, match="rows differ"), queue.database.writing():
        queue.fill({"rows": "10"}, {})


def test_a_file_that_is_no_database_is_refused_with_words(tmp_path):
    (tmp_path / "review.sqlite").write_text("no database, but long enough to be looked at as one" * 40)
    with pytest.raises(RunError, match="not a database"):
        Database(tmp_path / "review.sqlite")
