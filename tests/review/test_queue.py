"""Who gets which item, and when."""

import numpy as np
import pytest

from pencil.errors import RunError
from pencil.review.database import Database
from pencil.review.queue import DOUBTFUL, SURE, Queue

ABOUT = {"rows": "9"}


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def make_queue(tmp_path, clock):
    def make(rows=(5, 3, 8), sure=None):
        queue = Queue(Database(tmp_path / "review.sqlite"), clock, lease_seconds=60)
        parts = {DOUBTFUL: lambda: np.array(rows)}
        if sure is not None:
            parts[SURE] = lambda: np.array(sure)
        with queue.database.writing():
            queue.fill(ABOUT, parts)
        return queue

    return make


@pytest.fixture
def queue(make_queue):
    return make_queue()


def take(queue, client):
    with queue.database.writing():
        place = queue.take_next(client)
    return None if place is None else queue.row_at(place)


def test_items_come_in_order_and_a_client_gets_what_it_holds_again(queue):
    assert take(queue, "ann") == 5
    assert take(queue, "ann") == 5
    assert take(queue, "bob") == 3
    assert take(queue, "cem") == 8
    assert take(queue, "dan") is None


def test_a_lease_ends_and_the_item_goes_to_who_asks_next(queue, clock):
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


def test_decided_items_do_not_come_and_count_as_progress(queue):
    with queue.database.writing():
        queue.close(1)
    assert queue.progress() == {"total": 3, "decided": 1}
    assert take(queue, "ann") == 3
    with queue.database.writing():
        queue.open_again(1)
    assert queue.progress() == {"total": 3, "decided": 0}
    assert take(queue, "bob") == 5


def test_skipped_items_come_last_for_who_skipped_them_longest_ago_first(queue):
    with queue.database.writing():
        queue.set_aside(2, "ann", entry=1)
        queue.set_aside(1, "ann", entry=2)
    assert take(queue, "bob") == 5
    with queue.database.writing():
        queue.close(1)
    assert take(queue, "ann") == 8
    with queue.database.writing():
        queue.close(3)
        queue.open_again(1)
    assert take(queue, "ann") == 3
    with queue.database.writing():
        queue.set_aside(2, "ann", entry=3)
    assert take(queue, "ann") == 5  # skipped longer ago
    with queue.database.writing():
        queue.take_back(2, "ann")
    assert take(queue, "ann") == 3


def test_filling_again_changes_nothing(make_queue):
    first = make_queue()
    with first.database.writing():
        first.close(1)
    again = make_queue(rows=(1, 2))
    assert [again.row_at(place) for place in (1, 2, 3, 4)] == [5, 3, 8, None]
    assert again.progress() == {"total": 3, "decided": 1}


def test_sure_rows_follow_when_asked_for_and_only_then(make_queue):
    queue = make_queue()
    with queue.database.writing():
        queue.close(1)
    queue = make_queue(sure=(0, 7))
    assert queue.progress() == {"total": 5, "decided": 1}
    with queue.database.writing():
        for place in (2, 3, 4):
            queue.close(place)
    assert take(queue, "ann") == 7
    without = make_queue()
    assert without.progress() == {"total": 3, "decided": 3}
    assert take(without, "ann") is None


def test_an_empty_queue_has_nothing_to_do(make_queue):
    queue = make_queue(rows=())
    assert take(queue, "ann") is None
    assert queue.progress() == {"total": 0, "decided": 0}


def test_a_queue_of_other_labels_is_refused(queue):
    with pytest.raises(RunError, match="rows differ"), queue.database.writing():
        queue.fill({"rows": "10"}, {})


def test_a_file_that_is_no_database_is_refused_with_words(tmp_path):
    (tmp_path / "review.sqlite").write_text("no database, but long enough to be looked at as one" * 40)
    with pytest.raises(RunError, match="not a database"):
        Database(tmp_path / "review.sqlite")
