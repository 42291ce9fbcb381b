"""Which shards the words of a command mean."""

import pytest

from pencil.data.shards.listing import list_shards, named
from pencil.errors import DataError


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("b-01.tar", "b-00.tar", "b-02.tar", "notes.md", "deep/x.tar"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["b-01.tar"], ["b-01.tar"]),
        (["."], ["b-00.tar", "b-01.tar", "b-02.tar"]),
        (["b-0[12].tar", "deep"], ["b-01.tar", "b-02.tar", "deep/x.tar"]),
        (["b-{01..02}.tar"], ["b-01.tar", "b-02.tar"]),
        (["deep/../b-00.tar"], ["b-00.tar"]),
        (["**/x.tar"], ["deep/x.tar"]),
    ],
    ids=["file", "folder", "pattern", "range", "dots", "below"],
)
def test_files_folders_patterns_and_ranges(folder, words, expected):
    assert list_shards(words) == [str(folder / name) for name in expected]
    assert list_shards([str(folder / word) for word in words]) == [str(folder / name) for name in expected]


def test_two_signatures_of_one_address_are_one_shard():
    with pytest.raises(DataError, match=r"^https://h/a.tar: named twice"):
        list_shards(["https://h/a.tar?sig=1", "https://h/b.tar", "https://h/a.tar?sig=2"])


def test_a_text_lists_any_of_them_from_where_it_lies(folder):
    (folder / "deep/list.txt").write_text("# mine\nx.tar\n\n../b-*.tar\nhttp://host/{8..10}.tar\n")
    found = list_shards([str(folder / "deep/list.txt")])
    local = [str(folder / name) for name in ("deep/x.tar", "b-00.tar", "b-01.tar", "b-02.tar")]
    assert found == [*local, "http://host/8.tar", "http://host/9.tar", "http://host/10.tar"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["c.tar"], r"c.tar: no such file or folder in /"),
        (["c-*.tar"], r"no shards: c-\*\.tar names no \.tar and no \.parquet file"),
        (["b-00.tar", "b-*.tar"], r"b-00.tar: named twice"),
        (["**.tar"], r"\*\*\.tar: \*\* stands for folders .* write FOLDER/\*\*/\*\.tar"),
        (["{0..99999999}.tar"], "stands for more than [0-9,]+ shards; write smaller ranges"),
        (["{0..99999}-{0..99999}.tar"], "stands for more than [0-9,]+ shards; write smaller ranges"),
        (["{0..99999}-{9..0}-{0..99999}.tar"], "stands for more than [0-9,]+ shards; write smaller ranges"),
    ],
)
def test_what_is_not_there_or_there_twice_is_named(folder, words, told):
    with pytest.raises(DataError, match=told):
        list_shards(words)


def test_compressed_shards_of_a_folder_are_mentioned(folder):
    for name in ("deep/y.tar.gz", "deep/Z.TGZ"):
        (folder / name).touch()
    with pytest.warns(
        UserWarning, match=r"deep: 2 compressed tar files are left out, first Z.TGZ; unpack them"
    ):
        assert list_shards(["deep"]) == [str(folder / "deep/x.tar")]


@pytest.mark.parametrize("other", ["deep/..", "link", "link/b-00.tar", "deep/first.tar"])
def test_a_shard_named_twice_is_found_however_its_path_is_written(folder, other):
    (folder / "link").symlink_to(folder)
    (folder / "deep" / "first.tar").symlink_to(folder / "b-00.tar")
    with pytest.raises(DataError, match=r"b-00.tar: named twice"):
        list_shards(["b-00.tar", other])


def test_names_are_as_long_as_they_must_be_to_differ():
    names = [shard.name for shard in named(["/data/a/0.tar", "/data/a/1.tar"])]
    assert names == ["0.tar", "1.tar"]
    names = [shard.name for shard in named(["/data/a/0.tar", "http://host/b/0.tar"])]
    assert names == ["a/0.tar", "b/0.tar"]


def test_what_is_asked_of_a_server_is_no_part_of_a_name_and_no_pattern():
    signed = "https://host/b/0.tar?key=[1]&sign=*"
    assert list_shards([signed]) == [signed]
    assert [shard.name for shard in named([signed])] == ["0.tar"]


@pytest.mark.parametrize(
    ("urls", "told"),
    [
        (["/a.tar.gz"], r"a.tar.gz: compressed tar; unpack it"),
        (["/a.zip"], r"a.zip: neither \.tar nor \.parquet"),
        (["/a.tar", "/b.parquet"], "some shards are tar, some Parquet"),
    ],
)
def test_other_files_are_refused(urls, told):
    with pytest.raises(DataError, match=told):
        named(urls)
