"""Which store, by its word or by what fits."""

import os

import pytest
import torch

from pencil.stores import DenseStore, StoreChoice, TopStore, choose_store, free_memory
from pencil.stores.rows import CHUNK, ENTRIES, allocate, rows_at_once

GB = 10**9


@pytest.mark.parametrize("word", ["dense", "dense:mapped", "top:8", "top:16", "top:8:mapped"])
def test_a_word_becomes_a_choice_and_a_word_again(word):
    assert str(StoreChoice.parse(word)) == word


@pytest.mark.parametrize(
    "word", ["auto", "top", "top:0", "top:x", "sparse", "dense:8", "mapped", "top:8:mapped:"]
)
def test_other_words_are_refused(word):
    with pytest.raises(ValueError, match="use dense, dense:mapped, top:8 or top:8:mapped"):
        StoreChoice.parse(word)


@pytest.mark.parametrize(
    ("word", "kind"),
    [("dense", DenseStore), ("dense:mapped", DenseStore), ("top:3", TopStore), ("top:3:mapped", TopStore)],
)
def test_a_choice_makes_its_store_as_large_as_it_said(word, kind, tmp_path):
    choice = StoreChoice.parse(word)
    store = choice.make(10, 7, tmp_path)
    assert type(store) is kind
    size = sum(value.numel() * value.itemsize for value in store.state().values())
    assert size == 10 * choice.bytes_per_row(7)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("k", [7, 8])
def test_where_k_entries_are_all_there_are_rows_stay_whole(k):
    store = StoreChoice(k).make(2, 7)
    assert type(store) is DenseStore
    assert not StoreChoice(k).keeps_top(7)
    assert StoreChoice(k).bytes_per_row(7) == 28


@pytest.mark.parametrize(
    ("rows", "classes", "memory", "can_cut", "word"),
    [
        (50_000, 10, 8 * GB, True, "dense"),
        (1_281_167, 1000, 24 * GB, True, "dense"),
        (14_000_000, 21_841, 24 * GB, True, "top:8"),
        (300_000_000, 18_291, 32 * GB, True, "top:8"),
        (300_000_000, 18_291, 24 * GB, True, "top:8"),
        (300_000_000, 18_291, 16 * GB, True, "top:8:mapped"),
        (300_000_000, 18_291, 24 * GB, False, "dense:mapped"),
        (3_000_000_000, 6, 24 * GB, True, "dense:mapped"),
    ],
)
def test_the_first_that_fits_is_chosen(rows, classes, memory, can_cut, word):
    assert str(choose_store(rows, classes, can_cut=can_cut, memory=memory)) == word


def test_free_memory_is_shared_by_the_processes_of_a_host(monkeypatch):
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    alone = free_memory()
    assert 0 < alone <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert free_memory() == pytest.approx(alone / 4, rel=0.2)


MB = 10**6
SECOND = {
    "memory.max": 40 * MB,
    "memory.current": 15 * MB,
    "memory.stat": f"anon 1\ninactive_file {5 * MB}\n",
}
FIRST = {"memory.limit_in_bytes": 40 * MB, "memory.usage_in_bytes": 15 * MB}


@pytest.mark.parametrize(
    ("groups", "folder", "files", "left"),
    [
        ("0::/", ".", SECOND, 30 * MB),
        ("0::/a/b", "a", SECOND, 30 * MB),
        ("0::/a/b", "a/b", {**SECOND, "memory.max": 10 * MB}, 0),
        ("5:cpu:/\n4:memory:/docker/x\n0::/", "memory", FIRST, 25 * MB),
        ("4:cpu,memory:/x", "memory/x", FIRST | {"memory.stat": f"total_inactive_file {MB}\n"}, 26 * MB),
    ],
    ids=["container", "above", "exceeded", "first version", "cache"],
)
def test_the_limit_of_a_container_counts(monkeypatch, tmp_path, groups, folder, files, left):
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    (tmp_path / "groups").write_text(groups)
    (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (tmp_path / folder / name).write_text(f"{content}\n")
    monkeypatch.setattr("pencil.stores.choice.GROUPS", tmp_path / "groups")
    monkeypatch.setattr("pencil.stores.choice.GROUPS_ROOT", tmp_path)
    assert free_memory() == left


@pytest.mark.parametrize("groups", ["0::/", "", "nonsense", None])
def test_without_a_limit_the_memory_of_the_host_counts(monkeypatch, tmp_path, groups):
    if groups is not None:
        (tmp_path / "groups").write_text(groups)
    (tmp_path / "memory.max").write_text("max\n")
    monkeypatch.setattr("pencil.stores.choice.GROUPS", tmp_path / "groups")
    monkeypatch.setattr("pencil.stores.choice.GROUPS_ROOT", tmp_path)
    assert free_memory() > 100 * MB


def test_a_file_is_as_large_as_its_rows_and_starts_with_zeros(tmp_path):
    mapped = allocate((3, 4), torch.int16, tmp_path)
    assert mapped.shape == (3, 4)
    assert not mapped.any()
    mapped += 7
    assert int(mapped.sum()) == 84
    assert allocate((0, 4), torch.float32, tmp_path).shape == (0, 4)


def test_wide_rows_are_handled_fewer_at_a_time():
    assert rows_at_once(0) == rows_at_once(10) == CHUNK
    assert rows_at_once(18_291) == ENTRIES // 18_291
    assert rows_at_once(10 * ENTRIES) == 1
