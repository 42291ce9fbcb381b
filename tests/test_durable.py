"""Durable files: whole or as before, and synced in the order that power loss asks for."""

import os

import pytest

from pencil.durable import make_folder, publish, replacing, write_text


def test_an_error_leaves_the_file_as_it_was(tmp_path):
    write_text(tmp_path / "a", "before")
    with pytest.raises(ZeroDivisionError):
        _write_half(tmp_path / "a")
    assert (tmp_path / "a").read_text() == "before"
    assert list(tmp_path.iterdir()) == [tmp_path / "a"]


def test_contents_are_synced_before_the_rename_and_the_folder_after_it(tmp_path, monkeypatch):
    calls = []
    opened = {}
    monkeypatch.setattr(os, "open", _noting(os.open, opened))
    monkeypatch.setattr(os, "fsync", lambda handle: calls.append(("sync", opened[handle].name)))
    monkeypatch.setattr(type(tmp_path), "replace", lambda old, new: calls.append(("rename", new.name)))
    (tmp_path / "new").write_text("x")
    publish(tmp_path / "new", tmp_path / "a")
    folder = tmp_path.name
    assert calls == [("sync", "new"), ("sync", folder), ("rename", "a"), ("sync", folder)]


def _write_half(path):
    with replacing(path) as partial:
        partial.write_text("half")
        raise ZeroDivisionError


def _noting(real, opened):
    def open_(path, *rest):
        handle = real(path, *rest)
        opened[handle] = path
        return handle

    return open_


def test_folders_that_are_made_are_remembered_by_their_parents(tmp_path, monkeypatch):
    synced, opened = [], {}
    monkeypatch.setattr(os, "open", _noting(os.open, opened))
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(opened[handle]))
    make_folder(tmp_path / "a" / "b")
    make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    assert synced == [tmp_path, tmp_path / "a", tmp_path / "a"]


def test_a_folder_that_is_there_may_be_in_one_that_cannot_be_read(tmp_path, monkeypatch):
    """As homes may be: anybody passes through, and nobody lists them."""
    home = tmp_path / "home" / "ann"
    home.mkdir(parents=True)
    opens = os.open

    def refuse(path, *rest):
        if path == home.parent:
            raise PermissionError(13, "Permission denied", str(path))
        return opens(path, *rest)

    monkeypatch.setattr(os, "open", refuse)
    make_folder(home)
    make_folder(home / "new")
    assert (home / "new").is_dir()
    with pytest.raises(PermissionError):
        make_folder(home.parent / "bob")  # whether the new name would survive is not known


def test_a_planted_link_is_not_followed(tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("precious")
    (tmp_path / ".partial-a").symlink_to(outside)
    (tmp_path / "a").symlink_to(outside)
    write_text(tmp_path / "a", "new")
    assert outside.read_text() == "precious"
    assert (tmp_path / "a").read_text() == "new"


def test_of_two_writers_of_one_file_the_last_one_stays_whole(tmp_path):
    with replacing(tmp_path / "a") as first, replacing(tmp_path / "a") as second:
        first.write_text("first" * 1000)
        second.write_text("second")
    assert (tmp_path / "a").read_text() == "first" * 1000


def test_files_have_the_rights_of_other_files_whatever_their_writer_sets(tmp_path):
    (tmp_path / "other").write_text("")
    with replacing(tmp_path / "a") as partial:
        partial.chmod(0o600)
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_what_killed_processes_left_long_ago_is_removed(tmp_path):
    with replacing(tmp_path / "a") as partial:
        name = partial.name
    old, other, young = tmp_path / name, tmp_path / f"{name}b", tmp_path / name.replace("-a", "-b")
    for path in (old, other, young):
        path.write_text("")
        os.utime(path, (0, 0))
    write_text(tmp_path / "a", "x")
    assert not old.exists()
    assert other.exists()
    assert young.exists()


def test_the_longest_name_has_a_temporary_one(tmp_path):
    write_text(tmp_path / ("a" * 255), "x")
    assert [path.name for path in tmp_path.iterdir()] == ["a" * 255]
