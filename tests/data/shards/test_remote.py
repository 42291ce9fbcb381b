"""Shards behind a real HTTP server: fetched whole, verified, tried again, kept within bounds."""

import os
import time

import pytest
import torch

from pencil.data import fetch_batches
from pencil.data.shards import damaged_shards, read_shards, write_index
from pencil.data.shards.cache import LEFTOVER_SECONDS, PARTIAL, ShardCache
from pencil.data.shards.remote import filesystem
from pencil.errors import DataError, MissingExtraError
from pencil.places import is_remote

pytestmark = pytest.mark.usefixtures("quick_retries")


@pytest.fixture
def remote(image_shards, serve, tmp_path):
    """A server with four shards of five images, and their index."""
    folder = image_shards(tmp_path / "data")
    server = serve(folder)
    server.index = tmp_path / "index"
    server.shard = (
        write_index({"train": [f"{server.url}/000{{0..3}}.tar"]}, server.index).splits["train"].shards
    )
    server.folder = folder
    server.asked.clear()
    return server


def test_remote_shards_are_indexed_and_read_like_local_ones(remote, tmp_path):
    write_index({"train": [str(remote.folder)]}, tmp_path / "local")
    for array in ("labels", "offsets", "sizes", "keys", "key-ends"):
        name = f"train-{array}.bin"
        assert (remote.index / name).read_bytes() == (tmp_path / "local" / name).read_bytes()
    far = read_shards(remote.index, cache=tmp_path / "cache").train
    near = read_shards(tmp_path / "local").train
    rows = torch.tensor([19, 0, 7, 8])
    assert torch.equal(far.inputs.fetch(rows), near.inputs.fetch(rows))
    assert far.ids[19] == near.ids[19]
    assert sorted(remote.asked) == ["/0000.tar", "/0001.tar", "/0003.tar"]  # each once, whole


def test_a_shard_is_fetched_once_for_all_who_share_the_cache(remote, tmp_path):
    for _ in range(2):
        inputs = read_shards(remote.index, cache=tmp_path / "cache").train.inputs
        for workers in (0, 2):
            batches = list(fetch_batches(inputs, torch.arange(20).split(6), workers=workers))
            assert (
                torch.cat([values for values, _ in batches])[:, 0, 0, 0].tolist()
                == [0] * 5 + [1] * 5 + [2] * 5 + [3] * 5
            )
    assert sorted(remote.asked) == [f"/000{number}.tar" for number in range(4)]


def test_workers_made_by_fork_fetch_for_themselves(remote, tmp_path):
    inputs = read_shards(remote.index, cache=tmp_path / "cache").train.inputs
    inputs.fetch(torch.tensor([0]))  # so that this process has threads of fsspec
    batches = list(fetch_batches(inputs, torch.arange(20).split(6), workers=2))
    assert torch.cat([rows for _, rows in batches]).tolist() == list(range(20))
    assert sorted(remote.asked) == [f"/000{number}.tar" for number in range(4)]


@pytest.mark.parametrize("mood", [{"cut": 2}, {"fail": 2}], ids=["cut", "unavailable"])
def test_what_may_pass_is_tried_again(remote, tmp_path, mood):
    inputs = read_shards(remote.index, size=4, cache=tmp_path / "cache").train.inputs
    remote.mood.update(mood)
    assert inputs.fetch(torch.tensor([12]))[0, :, 0, 0].tolist() == [2, 2, 1]
    assert remote.asked == ["/0002.tar"] * 3
    assert files(tmp_path / "cache") == ["0002.tar"]


@pytest.mark.parametrize("mood", ["cut", "fail"])
def test_what_does_not_pass_is_an_error_that_names_the_shard(remote, tmp_path, mood):
    inputs = read_shards(remote.index, cache=tmp_path / "cache").train.inputs
    remote.mood[mood] = 99
    told = r"0002.tar, sample '.*': cannot be read \(http.*: cannot be fetched after 3 tries .*expected [\d,]+ bytes"
    with pytest.raises(DataError, match=told):
        inputs.fetch(torch.tensor([12]))
    assert files(tmp_path / "cache") == []


def test_a_shard_that_changed_is_refused_by_its_checksum(remote, tmp_path):
    inputs = read_shards(remote.index, cache=tmp_path / "cache").train.inputs
    file = remote.folder / "0001.tar"
    file.write_bytes(b"?" + file.read_bytes()[1:])
    told = rf"0001.tar: cannot be fetched after .*checksum \w{{8}}, expected .* checksum {remote.shard[1].crc32:08x}"
    with pytest.raises(DataError, match=told):
        inputs.fetch(torch.tensor([5]))


def test_a_missing_remote_shard_is_an_error_or_skipped_from_the_start(remote, tmp_path):
    (remote.folder / "0002.tar").unlink()
    with pytest.raises(
        DataError, match=r"0002.tar: missing at http://.*/0002.tar; expected .* bytes with checksum"
    ):
        read_shards(remote.index, cache=tmp_path / "cache")
    with pytest.warns(UserWarning, match="1 shards with 5 rows are skipped"):
        splits = read_shards(remote.index, cache=tmp_path / "cache", missing="skip")
    assert len(splits.train) == 15
    assert splits.train.inputs.fetch(torch.tensor([10]))[0, :, 0, 0].tolist() == [3, 0, 0]


def test_a_shard_that_goes_missing_later_is_named(remote, tmp_path):
    inputs = read_shards(remote.index, cache=tmp_path / "cache").train.inputs
    (remote.folder / "0003.tar").unlink()
    with pytest.raises(DataError, match=r"0003.tar, sample '003-000': cannot be read \(no file http://"):
        inputs.fetch(torch.tensor([15]))


def test_a_shard_kept_here_is_not_asked_for_again(remote, tmp_path):
    read_shards(remote.index, cache=tmp_path / "cache").train.inputs.fetch(torch.tensor([5]))
    (remote.folder / "0001.tar").unlink()
    again = read_shards(remote.index, cache=tmp_path / "cache").train.inputs
    assert again.fetch(torch.tensor([9]))[0, :, 0, 0].tolist() == [1, 4, 2]


def test_an_index_of_what_is_not_there_is_refused(serve, tmp_path):
    server = serve(tmp_path)
    with pytest.raises(DataError, match=r"a.tar: not found"):
        write_index({"train": [f"{server.url}/a.tar"]}, tmp_path / "index")


@pytest.mark.parametrize("mood", ["cut", "fail"])
def test_indexing_tries_again_too(image_shards, serve, tmp_path, mood):
    server = serve(image_shards(tmp_path / "data", shards=1))
    server.mood[mood] = 2
    assert len(write_index({"train": [f"{server.url}/0000.tar"]}, tmp_path / "index").splits["train"]) == 5
    assert server.asked == ["/0000.tar"] * 3
    server.mood[mood] = 99
    with pytest.raises(DataError, match=r"0000.tar: http://.*/0000.tar: cannot be fetched after 3 tries"):
        write_index({"train": [f"{server.url}/0000.tar"]}, tmp_path / "again")


def test_checksums_are_compared_on_request(remote):
    folder = remote.folder.parent / "check"
    folder.mkdir()
    told = []
    index = read_shards(remote.index, cache=folder / "cache").train.inputs.index
    assert damaged_shards(index, folder, lambda *step: told.append(step)) == {}
    assert told[-1] == (4, 4, 20)
    file = remote.folder / "0001.tar"
    file.write_bytes(b"?" + file.read_bytes()[1:])
    (remote.folder / "0003.tar").unlink()
    problems = damaged_shards(index, folder)
    assert {shard.name: text.partition(":")[0] for shard, text in problems.items()} == {
        "0001.tar": "http",
        "0003.tar": "missing at http",
    }
    assert "checksum" in problems[remote.shard[1]]


# places that nobody named


@pytest.fixture
def nothing_allowed(remote, monkeypatch):
    """The index of ``remote`` as somebody else's: its server is not named by the person running."""
    monkeypatch.delenv("PENCIL_ALLOW")
    return remote


def test_an_index_alone_makes_nobody_ask_a_server(nothing_allowed, tmp_path):
    told = (
        r"shards.json: names 4 shards outside .*first http://127.*pencil --allow http://127.0.0.1:\d+ COMMAND"
    )
    with pytest.raises(DataError, match=told):
        read_shards(nothing_allowed.index, cache=tmp_path / "cache")
    with pytest.raises(DataError, match=told):
        read_shards(nothing_allowed.index, cache=tmp_path / "cache", missing="skip")
    with pytest.raises(DataError, match=told):
        read_shards(nothing_allowed.index, cache=tmp_path / "cache", allow=["http://127.0.0.1"])
    assert nothing_allowed.asked == []


def test_the_caller_may_name_the_server(nothing_allowed, tmp_path):
    far = read_shards(nothing_allowed.index, cache=tmp_path / "cache", allow=[nothing_allowed.url]).train
    assert len(far.inputs.fetch(torch.tensor([0]))) == 1


def test_a_server_sends_nobody_to_another_one(remote, serve, tmp_path, monkeypatch):
    inputs = read_shards(remote.index, cache=tmp_path / "cache").train.inputs
    other = serve(remote.folder)
    monkeypatch.setenv("PENCIL_ALLOW", remote.url)
    remote.mood["redirect"] = f"{other.url}/0000.tar"
    with pytest.raises(DataError, match=r"0000.tar: redirects to http://127.*which is not followed"):
        inputs.fetch(torch.tensor([0]))
    with pytest.raises(DataError, match=r"0000.tar: redirects to http://127.*which is not followed"):
        write_index({"train": [f"{remote.url}/0000.tar"]}, tmp_path / "new")
    assert other.asked == []
    monkeypatch.setenv("PENCIL_ALLOW", f"{remote.url},{other.url}")
    assert len(inputs.fetch(torch.tensor([0]))) == 1


def test_local_shards_elsewhere_need_a_word_too(image_shards, tmp_path, monkeypatch):
    monkeypatch.delenv("PENCIL_ALLOW", raising=False)
    folder = image_shards(tmp_path / "data")
    (tmp_path / "work").mkdir()
    write_index({"train": [str(folder)]}, tmp_path / "work" / "index")
    with pytest.raises(
        DataError, match=rf"names 4 shards outside .*work, first {folder}/0000.tar; .*--allow {folder} "
    ):
        read_shards(tmp_path / "work" / "index")
    assert len(read_shards(tmp_path / "work" / "index", allow=[str(folder)]).train) == 20
    write_index({"train": [str(folder)]}, tmp_path / "index")  # beside the shards
    assert len(read_shards(tmp_path / "index").train) == 20


# the cache


def files(folder):
    return sorted(file.name.partition("-")[2] for file in folder.iterdir())


def make_older(folder):
    """As if a minute had passed: every file was used a minute earlier."""
    for file in folder.iterdir():
        used = file.stat().st_mtime - 60
        os.utime(file, (used, used))


def test_the_longest_unused_are_dropped_and_can_be_read_on_by_who_has_them_open(remote, tmp_path):
    size = remote.shard[0].bytes
    inputs = read_shards(remote.index, cache=tmp_path / "cache", cache_bytes=2 * size).train.inputs
    for row in (0, 5, 0, 10):
        inputs.fetch(torch.tensor([row]))
        make_older(tmp_path / "cache")
    assert files(tmp_path / "cache") == ["0001.tar", "0002.tar"]  # an open file is not looked up again
    cache = ShardCache(tmp_path / "cache", 2 * size)
    cache.path(remote.shard[1])
    make_older(tmp_path / "cache")
    cache.path(remote.shard[3])
    assert files(tmp_path / "cache") == ["0001.tar", "0003.tar"]
    assert inputs.fetch(torch.tensor([3]))[0, :, 0, 0].tolist() == [0, 3, 0]
    assert remote.asked.count("/0000.tar") == 1


def test_leftovers_of_killed_processes_are_removed_after_a_day(remote, tmp_path):
    (tmp_path / "cache").mkdir()
    for name, age in (("1-2", LEFTOVER_SECONDS + 60), ("3-4", 60), ("precious", LEFTOVER_SECONDS + 60)):
        file = tmp_path / "cache" / f"{PARTIAL}{name}"
        file.touch()
        os.utime(file, (time.time() - age,) * 2)
    ShardCache(tmp_path / "cache", 10**9).path(remote.shard[0])
    left = sorted(file.name for file in (tmp_path / "cache").glob(".*"))
    assert left == [f"{PARTIAL}3-4", f"{PARTIAL}precious"]


def test_other_things_in_the_folder_are_left_alone(remote, tmp_path):
    """A run's settings may be a stranger's, and name any folder as the cache."""
    (tmp_path / "cache" / "inner").mkdir(parents=True)
    (tmp_path / "cache" / "thesis.tex").write_text("precious")
    cache = ShardCache(tmp_path / "cache", 1)
    cache.path(remote.shard[0])
    cache.path(remote.shard[1])
    assert (tmp_path / "cache" / "thesis.tex").read_text() == "precious"
    assert len(list((tmp_path / "cache").iterdir())) == 3


def test_a_cache_too_small_for_a_shard_is_refused(remote, tmp_path):
    with pytest.raises(
        DataError, match=r"data.cache_bytes: 100 is less than the [\d,]+ bytes of 0000.tar; raise it"
    ):
        read_shards(remote.index, cache=tmp_path / "cache", cache_bytes=100)


# packages


def test_addresses_are_told_from_paths():
    assert is_remote("s3://bucket/a.tar")
    assert not is_remote("/data/a.tar")


@pytest.mark.parametrize(("scheme", "package"), [("s3", "s3fs"), ("gs", "gcsfs")])
def test_without_a_package_for_the_address_it_is_named(monkeypatch, scheme, package):
    monkeypatch.setitem(__import__("sys").modules, package, None)
    with pytest.raises(
        MissingExtraError, match=rf"{package} is needed to read {scheme}:// .*pip install {package}"
    ):
        filesystem(f"{scheme}://bucket/a.tar")


def test_without_the_extra_its_name_is_told(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "aiohttp", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'pencil-labels\[remote\]'"):
        filesystem("http://host/a.tar")


def test_an_unknown_kind_of_address_is_refused():
    with pytest.raises(DataError, match=r"carrier:// is unknown .*; use s3, gs, http or https"):
        filesystem("carrier://pigeon/a.tar")
