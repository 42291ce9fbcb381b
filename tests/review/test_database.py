"""The file of a review belongs to its owner alone, from its first moment."""

import os
import stat

import pytest

from pencil.errors import RunError
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
    import sqlite3

    seen, connect = [], sqlite3.connect

    def noting(path, **words):
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
