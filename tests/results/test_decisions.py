"""Decisions laid over learned labels."""

import sqlite3
from contextlib import closing

import pytest
import torch

from pencil.errors import RunError
from pencil.results import (
    DECISIONS,
    DecisionReader,
    judge,
    last_entry,
    read_decisions,
    was_reviewed,
)
from pencil.review.database import Database

ENTRY = (
    "INSERT INTO history (request, round, row, id, version, action, label, undoes, reviewer, client, at, ticket) "
    "VALUES (?, 'first', ?, ?, ?, ?, ?, NULL, 'Ann', 'c', 'now', ?)"
)


BELIEF = torch.rand(7, 4, generator=torch.Generator().manual_seed(0)).softmax(dim=1)


def judged_with(folder, name="id", size=3):
    """Seven rows with the decisions in a folder, judged a few at a time."""
    reader = DecisionReader(folder, 4)
    for some in torch.arange(7).split(size):
        ids = [f"{name} {row}" for row in some.tolist()]
        given = torch.zeros(len(some), dtype=torch.long)
        yield judge(BELIEF[some], given, 0.9, ids=ids, first=int(some[0]), decided=reader.take(ids))
    reader.finish()


@pytest.fixture
def reviewed(tmp_path):
    """Rows 5, 2 and 4 decided, in this order, as a review writes them."""
    database = Database(tmp_path / "review.sqlite")
    with database.writing():
        for place, (row, action, label) in enumerate(
            [(5, "kept", 0), (2, "changed", 3), (4, "dropped", None)]
        ):
            database.run(ENTRY, (place, row, b"id %d" % row, 1, action, label, f"t{place}"))
    database.close()
    return tmp_path


def test_decided_rows_are_certain_and_the_others_stay(reviewed):
    merged = list(judged_with(reviewed))
    assert [DECISIONS[decision] for judged in merged for decision in judged.decision.tolist()] == [
        *("", "", "changed", ""),
        *("dropped", "kept", ""),
    ]
    belief = torch.cat([judged.distribution for judged in merged])
    assert belief[2].tolist() == [0, 0, 0, 1]
    assert belief[5].tolist() == [1, 0, 0, 0]
    others = [0, 1, 3, 4, 6]
    assert torch.equal(belief[others], BELIEF[others])


def test_the_newest_entry_and_earlier_states(reviewed):
    assert was_reviewed(reviewed)
    assert last_entry(reviewed) == 3
    assert [made.row for made in read_decisions(reviewed)] == [2, 4, 5]
    assert [made.row for made in read_decisions(reviewed, entry=2)] == [2, 5]


def test_a_folder_without_a_review_is_not_reviewed(tmp_path):
    assert not was_reviewed(tmp_path)


def test_a_review_of_other_rows_is_refused(reviewed):
    with pytest.raises(RunError, match="row 2 was 'id 2' during the review and is 'name 2' now"):
        list(judged_with(reviewed, name="name"))


def test_a_damaged_review_is_named(tmp_path):
    (tmp_path / "review.sqlite").write_text("nothing of the kind " * 100)
    with pytest.raises(RunError, match=r"review.sqlite: file is not a database; allow this user"):
        last_entry(tmp_path)


@pytest.mark.parametrize(
    ("row", "name", "action", "label"),
    [
        (2, b"id 2", "changed", 4),
        (2, b"id 2", "changed", -1),
        (2, b"id 2", "changed", None),
        (2, b"id 2", "changed", "a"),
        (2, b"id 2", "dropped", 1),
        (2, "id 2", "kept", 0),
        (-1, b"id 2", "kept", 0),
        ("x", b"id 2", "kept", 0),
        (5, b"id 5", "kept", 0),
        (7, b"id 7", "kept", 0),
    ],
)
def test_decisions_that_no_review_made_are_one_error(reviewed, row, name, action, label):
    database = Database(reviewed / "review.sqlite")
    with database.writing():
        database.run(ENTRY, (9, row, name, 9, action, label, "t9"))
    database.close()
    with pytest.raises(RunError, match=r"review\.sqlite.*(restore it from a copy|move it away)"):
        list(judged_with(reviewed))


ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS entry, x AS row FROM n"
COLUMNS = "entry, round, row, id, action, label"


@pytest.mark.parametrize(
    "schema",
    [
        "CREATE TABLE other (x)",
        f"CREATE VIEW history AS {ENDLESS}",
        "CREATE VIRTUAL TABLE history USING fts5 (entry, row, id, action, label, undoes)",
        "CREATE TABLE history (entry INTEGER PRIMARY KEY, row, id, action)",
        f"CREATE TABLE history ({COLUMNS}, undoes)",
        f"CREATE TABLE history ({COLUMNS}, undoes UNIQUE, more AS (zeroblob(1000000000)))",
    ],
)
def test_a_file_of_another_making_is_refused(tmp_path, schema):
    with closing(sqlite3.connect(tmp_path / "review.sqlite")) as made:
        made.execute(schema)
    with pytest.raises(RunError, match="pencil review creates"):
        list(read_decisions(tmp_path))


def test_a_view_in_the_place_of_the_history_is_not_reviewed_on(tmp_path):
    with closing(sqlite3.connect(tmp_path / "review.sqlite")) as made:
        made.execute(f"CREATE VIEW history AS {ENDLESS}")
    with pytest.raises(RunError, match=r"review\.sqlite: "):
        Database(tmp_path / "review.sqlite")
