"""The cache of features: what was added is found by key, whoever wrote it and whatever else lies in the folder."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from pencil.embed.cache import FeatureCache, cache_folder


def part(keys, size=3):
    return torch.tensor(keys), torch.tensor([[key + 0.5] * size for key in keys]).reshape(len(keys), size)


def test_what_was_added_is_found_by_key_in_any_order(tmp_path):
    cache = FeatureCache(tmp_path / "mark", 3)
    cache.add(*part([5, -7, 2**62]))
    cache.add(*part([3]))
    features, there = cache.read(torch.tensor([3, 4, -7, 5, 3]))
    assert there.tolist() == [True, False, True, True, True]
    assert features[:, 0].tolist() == [3.5, 0, -6.5, 5.5, 3.5]


def test_an_empty_cache_has_nothing(tmp_path):
    features, there = FeatureCache(tmp_path / "absent", 4).read(torch.tensor([1, 2]))
    assert features.shape == (2, 4)
    assert not there.any()


def test_a_damaged_part_and_one_of_another_width_are_ignored(tmp_path):
    cache = FeatureCache(tmp_path, 3)
    cache.add(*part([1]))
    FeatureCache(tmp_path, 5).add(*part([2], size=5))
    (tmp_path / "broken.safetensors").write_bytes(b"not a file")
    with pytest.warns(UserWarning, match=r"broken\.safetensors.* rm "):
        assert cache.read(torch.tensor([1, 2]))[1].tolist() == [True, False]
    assert cache.read(torch.tensor([1]))[1].item()  # it warns once


def flipped(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def unsealed(path):
    save_file(load_file(path), path)


def newer(path):
    path.write_bytes(path.read_bytes().replace(b"pencil 1 ", b"pencil 2 "))


@pytest.mark.parametrize(
    ("change", "words"), [(flipped, "checksum"), (unsealed, "no seal"), (newer, "newer")]
)
def test_a_part_that_is_not_what_was_written_is_not_used(tmp_path, change, words):
    cache = FeatureCache(tmp_path, 3)
    cache.add(*part([1]))
    (path,) = tmp_path.iterdir()
    change(path)
    with pytest.warns(UserWarning, match=words):
        assert not cache.read(torch.tensor([1]))[1].item()


def test_a_part_of_another_encoder_is_not_used(tmp_path):
    cache = FeatureCache(tmp_path / "other mark", 3)
    cache.add(*part([1]))
    (tmp_path / "other mark").rename(tmp_path / "mark")
    with pytest.warns(UserWarning, match="belongs to"):
        assert not FeatureCache(tmp_path / "mark", 3).read(torch.tensor([1]))[1].item()


def test_many_bad_parts_are_one_warning(tmp_path):
    for number in range(9):
        (tmp_path / f"{number}.safetensors").write_bytes(b"")
    with pytest.warns(UserWarning, match=f"^9 files.* rm -r {tmp_path}") as told:
        FeatureCache(tmp_path, 3).read(torch.tensor([1]))
    assert len(told) == 1


@given(
    st.lists(st.lists(st.integers(-9, 9), min_size=1, max_size=6), max_size=3), st.lists(st.integers(-9, 9))
)
def test_a_key_is_there_exactly_if_a_part_has_it(tmp_path_factory, parts, asked):
    cache = FeatureCache(tmp_path_factory.mktemp("cache"), 3)
    for keys in parts:
        cache.add(*part(keys))
    features, there = cache.read(torch.tensor(asked, dtype=torch.int64))
    known = {key for keys in parts for key in keys}
    assert there.tolist() == [key in known for key in asked]
    assert features[:, 0].tolist() == [key + 0.5 if key in known else 0 for key in asked]


def test_the_folder_can_be_chosen(monkeypatch, tmp_path):
    monkeypatch.setenv("PENCIL_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path / "embeddings"
    monkeypatch.delenv("PENCIL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "pencil" / "embeddings"
