"""The file of a review belongs to its owner and its run alone, and holds what a review creates."""

import os
import sqlite3
import stat
import threading
import time
from contextlib import closing

import pytest

from pencil.errors import RunError
from pencil.identity import write_identity
from pencil.results import last_entry
from pencil.review.database import Database

NAMES = ("review.sqlite", "review.sqlite-wal", "review.sqlite-shm")


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def mask(request):
    before = os.umask(request.param)
    yield
    os.umask(before)


def modes(folder):
    return {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.glob("review.sqlite*")}


def written(path):
    database = Database(path)
    with database.writing():
        database.run("INSERT OR REPLACE INTO about VALUES ('a', 'b')")
    return database


def test_nobody_else_may_read_it_whatever_the_mask(tmp_path, mask):
    database = written(tmp_path / "review.sqlite")
    assert modes(tmp_path) == dict.fromkeys(NAMES, 0o600)
    database.close()


def test_nobody_else_may_read_it_at_any_moment(tmp_path, mask, monkeypatch):
    """Seen from within: by the time SQLite opens the file, it is there already and private."""
    seen, connect = [], sqlite3.connect

    def noting(path, **words):
        if path != ":memory:":
            seen.append(modes(tmp_path))
        return connect(path, **words)

    monkeypatch.setattr("sqlite3.connect", noting)
    Database(tmp_path / "review.sqlite").close()
    assert seen == [{"review.sqlite": 0o600}]


def test_an_older_file_is_made_private_with_what_lies_beside_it(tmp_path):
    first = written(tmp_path / "review.sqlite")
    for name in NAMES:
        (tmp_path / name).chmod(0o644)
    second = written(tmp_path / "review.sqlite")
    assert modes(tmp_path) == dict.fromkeys(NAMES, 0o600)
    assert first.find("SELECT value FROM about") == second.find("SELECT value FROM about") == ("b",)
    first.close()
    second.close()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("there", [True, False], ids=["to a file", "to nothing"])
def test_a_link_in_its_place_is_refused_and_its_target_left_alone(tmp_path, name, there):
    secret = tmp_path / "runs-secret" / "notes"
    secret.parent.mkdir()
    if there:
        secret.write_text("a secret")
        secret.chmod(0o644)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / name).symlink_to(secret)
    with pytest.raises(RunError, match=f"{name}: is a link or not a regular file"):
        Database(tmp_path / "runs" / "review.sqlite")
    assert secret.exists() is there
    if there:
        assert (secret.read_text(), stat.S_IMODE(secret.stat().st_mode)) == ("a secret", 0o644)


def test_a_pipe_in_its_place_is_refused(tmp_path):
    os.mkfifo(tmp_path / "review.sqlite")
    with pytest.raises(RunError, match="is a link or not a regular file"):
        Database(tmp_path / "review.sqlite")


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(RunError, match=r"review\.sqlite: cannot be restricted to its owner"):
        Database(tmp_path / "nowhere" / "review.sqlite")


ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT COUNT(*) FROM n"
PLANTS = {
    "trigger": "CREATE TRIGGER undo AFTER INSERT ON history BEGIN SELECT 1; END",
    "endless trigger": f"CREATE TRIGGER wait AFTER INSERT ON leases BEGIN {ENDLESS}; END",
    "view": f"CREATE VIEW more AS {ENDLESS}",
    "index": "CREATE UNIQUE INDEX once ON history (reviewer)",
    "table": "CREATE TABLE more (x)",
    "other index": "DROP INDEX queue_by_row; CREATE INDEX queue_by_row ON queue (row DESC)",
    "other trigger": "DROP TRIGGER history_stays; CREATE TRIGGER history_stays INSERT ON parts BEGIN SELECT 1; END",
    "other table": "DROP TABLE skips; CREATE TABLE skips (round, client, row, entry, more AS (zeroblob(1000000000)))",
    "column": "ALTER TABLE leases ADD COLUMN more",
    "statistics": "ANALYZE",
}


@pytest.mark.parametrize("plant", PLANTS.values(), ids=PLANTS)
def test_a_file_with_anything_else_in_it_is_refused_for_reading_and_writing(tmp_path, plant):
    written(tmp_path / "review.sqlite").close()
    with closing(sqlite3.connect(tmp_path / "review.sqlite")) as stranger:
        stranger.executescript(plant)
    for opened in (lambda: Database(tmp_path / "review.sqlite"), lambda: last_entry(tmp_path)):
        with pytest.raises(RunError, match="move it away"):
            opened()


def test_a_file_that_a_killed_server_began_is_completed(tmp_path):
    (tmp_path / "review.sqlite").touch(0o600)
    written(tmp_path / "review.sqlite").close()
    assert last_entry(tmp_path) == 0


def test_a_file_names_its_run_and_is_refused_by_others(tmp_path):
    path, run = tmp_path / "review.sqlite", write_identity(tmp_path)
    database = written(path)
    assert database.find("SELECT value FROM about WHERE name = 'run'") == (run,)
    database.close()
    assert last_entry(tmp_path) == 0
    for changed in (lambda: write_identity(tmp_path), lambda: (tmp_path / "run.json").unlink()):
        changed()
        for opened in (lambda: Database(path), lambda: last_entry(tmp_path)):
            with pytest.raises(RunError, match="another run"):
                opened()


def test_a_file_from_before_there_were_ids_gets_that_of_its_run_when_it_is_written(tmp_path):
    path = tmp_path / "review.sqlite"
    written(path).close()
    run = write_identity(tmp_path)
    assert last_entry(tmp_path) == 0  # reading changes nothing
    with closing(sqlite3.connect(path)) as plain:
        assert plain.execute("SELECT * FROM about").fetchall() == [("a", "b")]
    database = Database(path)
    assert database.find("SELECT value FROM about WHERE name = 'run'") == (run,)
    database.close()


def moved(tmp_path):
    (tmp_path / "run").rename(tmp_path / "away")


def removed(tmp_path):
    (tmp_path / "run" / "review.sqlite").unlink()


def exchanged(tmp_path):
    moved(tmp_path)
    (tmp_path / "run").mkdir()
    written(tmp_path / "run" / "review.sqlite").close()


def renamed(tmp_path):
    write_identity(tmp_path / "run")


@pytest.mark.parametrize("change", [moved, removed, exchanged, renamed])
def test_nothing_is_recorded_once_the_folder_holds_another_run(tmp_path, change):
    (tmp_path / "run").mkdir()
    database = written(tmp_path / "run" / "review.sqlite")
    change(tmp_path)
    with pytest.raises(RunError, match="nothing was recorded"), database.writing():
        database.run("INSERT OR REPLACE INTO about VALUES ('a', 'c')")
    assert database.find("SELECT value FROM about WHERE name = 'a'") == ("b",)
    database.close()


def test_closing_ends_a_query_that_never_ends(tmp_path):
    database, errors = written(tmp_path / "review.sqlite"), []

    def ask():
        try:
            database.find(ENDLESS)
        except RunError as error:
            errors.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    time.sleep(0.3)
    closed = threading.Thread(target=database.close)
    closed.start()
    closed.join(20)
    asking.join(20)
    assert not closed.is_alive()
    assert len(errors) == 1
