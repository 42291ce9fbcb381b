"""Paths and addresses that files name are followed out of their folder only on the word of the person running."""

import os
from pathlib import Path

import pytest

from pencil.places import VARIABLE, allowed_places, allowing, common_place, may_contact, stays_within


@pytest.fixture(autouse=True)
def nothing_allowed(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.mark.parametrize("path", ["a.png", "b/c.png", "..a/b.png", "a..b", "b/...", "ä b.png", "-x"])
def test_paths_below_the_folder_stay(tmp_path, path):
    assert stays_within(path, tmp_path)


@pytest.mark.parametrize("path", ["/etc/passwd", "../a.png", "b/../../a.png", "..", "/"])
def test_paths_out_of_the_folder_do_not(tmp_path, path):
    assert not stays_within(path, tmp_path)


def test_a_folder_whose_name_begins_alike_is_another_one(tmp_path):
    assert not stays_within(str(tmp_path / "runs-secret" / "a.png"), tmp_path / "runs")
    assert not stays_within("../runs-secret/a.png", tmp_path / "runs")


def test_whole_paths_below_the_folder_stay(tmp_path):
    assert stays_within(str(tmp_path / "a.png"), tmp_path)
    assert stays_within("b/../a.png", tmp_path)


def test_two_dots_behind_a_link_are_looked_up_on_disk(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "far" / "deep").mkdir(parents=True)
    (tmp_path / "home" / "link").symlink_to(tmp_path / "far" / "deep")
    assert not stays_within("link/../a.png", tmp_path / "home")


def test_what_the_person_names_is_allowed(tmp_path, monkeypatch):
    assert stays_within("/data/x/a.png", tmp_path, ["/data"])
    assert not stays_within("/database/a.png", tmp_path, ["/data"])
    monkeypatch.setenv(VARIABLE, " /data , s3://bucket/x/")
    assert stays_within("/data/x/a.png", tmp_path)
    assert may_contact("s3://bucket/x/a.tar")
    assert not may_contact("s3://bucket/y/a.tar")
    assert allowed_places() == ("/data", "s3://bucket/x/")


@pytest.mark.parametrize(
    "url",
    [
        "http://host.evil/a.tar",
        "http://host@evil/a.tar",
        "https://host/a.tar",
        "http://host:81/a.tar",
        "http://169.254.169.254/latest",
        "http://host/../a.tar",
        "http://host\\@evil/a.tar",
        "file:///etc/passwd",
    ],
)
def test_another_address_is_not_the_one_named(url):
    assert not may_contact(url, ["http://host"])
    assert may_contact("http://host/a.tar?key=1", ["http://host/"])


def test_places_are_allowed_within_a_block_and_for_processes_started_there(monkeypatch):
    monkeypatch.setenv(VARIABLE, "/one")
    with allowing(["/two"]):
        assert os.environ[VARIABLE] == "/one,/two"
    assert os.environ[VARIABLE] == "/one"
    monkeypatch.delenv(VARIABLE)
    with allowing(["/two"]):
        assert allowed_places() == ("/two",)
    assert VARIABLE not in os.environ


@pytest.mark.parametrize(
    ("places", "common"),
    [
        (["http://h/a/1.tar", "http://h/a/2.tar", "s3://x/1.tar"], "http://h/a"),
        (["s3://bucket/1.tar"], "s3://bucket"),
        (["/d/a/1.tar", "/d/b/2.tar"], "/d"),
    ],
)
def test_the_place_that_all_lie_in(places, common):
    assert common_place(places) == common
    assert all(
        may_contact(place, [common]) or stays_within(place, Path("/x"), [common]) for place in places[:1]
    )
