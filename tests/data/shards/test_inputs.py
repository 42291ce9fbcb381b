"""Rows of shards, decoded when asked for; shards that are missing, cut off or damaged."""

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from pencil.data import blocks_of, fetch_batches, shown
from pencil.data.shards import read_shards, write_index
from pencil.data.shards.files import OPEN, Recent
from pencil.errors import DataError


@pytest.fixture
def shards(image_shards, tmp_path):
    """Four shards of five images, indexed."""
    folder = image_shards(tmp_path / "data")
    write_index({"train": [str(folder)]}, tmp_path / "index")
    return tmp_path / "index"


def colours(images):
    return images[:, :, 0, 0].tolist()


def test_rows_come_in_any_order_as_their_shards_hold_them(shards):
    train = read_shards(shards).train
    assert len(train) == 20
    images = train.inputs.fetch(torch.tensor([13, 2, 19, 2]))
    assert images.shape == (4, 3, 4, 4)
    assert images.dtype == torch.uint8
    assert colours(images) == [[2, 3, 2], [0, 2, 2], [3, 4, 1], [0, 2, 2]]
    assert train.labels.hard[[13, 2, 19]].tolist() == [2, 2, 1]
    assert [train.ids[row] for row in (13, 19)] == ["0002.tar/002-003", "0003.tar/003-004"]
    assert train.ids[3:5] == ["0000.tar/000-003", "0000.tar/000-004"]
    assert blocks_of(train.inputs).sizes.tolist() == [5, 5, 5, 5]


def test_images_are_resized_and_grey_where_asked(shards):
    images = read_shards(shards, size=6, channels=1).train.inputs.fetch(torch.tensor([0]))
    assert images.shape == (1, 1, 6, 6)


def test_for_people_images_are_as_their_shards_hold_them(shards):
    train = read_shards(shards, size=6, channels=1).train
    image = shown(train.subset(torch.tensor([2, 13])).inputs, 1).pixels
    assert image.shape == (3, 4, 4)
    assert image[:, 0, 0].tolist() == [2, 3, 2]


def test_images_of_other_sizes_are_named(tar, png, tmp_path):
    tar(tmp_path / "a.tar", [("x.png", png()), ("x.cls", b"0"), ("y.png", png(size=5)), ("y.cls", b"1")])
    write_index({"train": [str(tmp_path / "a.tar")]}, tmp_path / "index")
    with pytest.raises(
        DataError, match=r"a.tar, sample 'y': 5 x 5 pixels, but a.tar, sample 'x' has 4 x 4; set size"
    ):
        read_shards(tmp_path / "index").train.inputs.fetch(torch.tensor([1]))


def test_features_keep_shape_and_type(tar, npy, tmp_path):
    files = [
        each
        for row in range(3)
        for each in ((f"{row}.npy", npy(np.full(2, row, ">f2"))), (f"{row}.cls", b"0"))
    ]
    tar(tmp_path / "a.tar", files)
    write_index({"train": [str(tmp_path / "a.tar")]}, tmp_path / "index")
    values = read_shards(tmp_path / "index").train.inputs.fetch(torch.tensor([2, 0]))
    assert values.dtype == torch.float16
    assert values.tolist() == [[2, 2], [0, 0]]


def test_features_that_are_no_numbers_are_named(tar, npy, tmp_path):
    tar(tmp_path / "a.tar", [("x.npy", npy(np.array([1, np.nan]))), ("x.cls", b"0")])
    write_index({"train": [str(tmp_path / "a.tar")]}, tmp_path / "index")
    with pytest.raises(DataError, match=r"a.tar, sample 'x': holds NaN"):
        read_shards(tmp_path / "index").train.inputs.fetch(torch.tensor([0]))


def test_views_and_workers_read_the_same(shards):
    train = read_shards(shards).train.subset(torch.arange(1, 20, 2))
    batches = torch.randperm(10, generator=torch.Generator().manual_seed(0)).split(4)
    alone = list(fetch_batches(train.inputs, batches))
    helped = list(fetch_batches(train.inputs, batches, workers=2))
    assert all(torch.equal(one[0], other[0]) for one, other in zip(alone, helped, strict=True))
    assert blocks_of(train.inputs).sources.tolist() == [0, 1, 2, 3]
    assert blocks_of(train.inputs).sizes.tolist() == [2, 3, 2, 3]


def test_another_process_opens_its_own_files(shards):
    inputs = read_shards(shards).train.inputs
    inputs.fetch(torch.tensor([0]))
    sent = pickle.loads(pickle.dumps(inputs))
    assert "_reader" not in vars(sent)
    assert torch.equal(sent.fetch(torch.tensor([7])), inputs.fetch(torch.tensor([7])))


def test_no_more_files_stay_open_than_allowed(image_shards, tmp_path):
    folder = image_shards(tmp_path / "data", shards=OPEN + 20, rows=1)
    write_index({"train": [str(folder)]}, tmp_path / "index")
    inputs = read_shards(tmp_path / "index").train.inputs
    assert len(inputs.fetch(torch.arange(OPEN + 20))) == OPEN + 20
    open_files = [os.path.realpath(link) for link in Path("/proc/self/fd").iterdir()]
    assert sum(str(folder) in file for file in open_files) == OPEN


def test_what_was_used_last_is_kept():
    made = []
    recent = Recent(limit=5, weigh=len)

    def get(key):
        return recent.get(key, lambda: made.append(key) or key)

    for key in ("aa", "bb", "aa", "cc", "bb", "aa", "eeeeeeee", "eeeeeeee"):
        assert get(key) == key
    assert made == ["aa", "bb", "cc", "bb", "aa", "eeeeeeee"]


# missing and damaged shards


def test_missing_and_cut_off_shards_are_named_with_what_was_expected(shards, tmp_path):
    (tmp_path / "data/0001.tar").unlink()
    file = tmp_path / "data/0003.tar"
    size = file.stat().st_size
    os.truncate(file, 3000)
    with pytest.raises(DataError) as told:
        read_shards(shards)
    text = str(told.value)
    assert text.startswith("2 shards with 10 rows are missing or damaged:")
    assert "0001.tar: missing at " in text
    assert f"0003.tar: 3,000 bytes at {file}; expected {size:,} bytes with checksum " in text
    assert "--set data.missing_shards=skip" in text


def test_without_the_first_shard_a_run_goes_on_with_the_rows_of_the_others(shards, tmp_path):
    (tmp_path / "data/0000.tar").unlink()
    with pytest.warns(UserWarning, match=r"1 shards with 5 rows are skipped:\n  0000.tar: missing at"):
        splits = read_shards(shards, missing="skip")
    train = splits.train
    assert splits.skipped == {"0000.tar": 5}
    assert len(train) == 15
    assert train.ids[0] == "0001.tar/001-000"
    assert colours(train.inputs.fetch(torch.tensor([0, 14]))) == [[1, 0, 1], [3, 4, 1]]
    assert blocks_of(train.inputs).sources.tolist() == [1, 2, 3]


def test_with_no_shard_left_there_is_nothing_to_skip_to(shards, tmp_path):
    for file in (tmp_path / "data").iterdir():
        file.unlink()
    with (
        pytest.warns(UserWarning, match="4 shards with 20 rows are skipped"),
        pytest.raises(DataError, match="no rows of the train split are left"),
    ):
        read_shards(shards, missing="skip")


def test_damage_that_comes_later_is_named_with_shard_and_sample(shards, tmp_path):
    inputs = read_shards(shards).train.inputs
    inputs.fetch(torch.tensor([5]))
    os.truncate(tmp_path / "data/0001.tar", 3000)
    with pytest.raises(
        DataError, match=r"0001.tar, sample '001-004': cannot be read \(cut off: .*; expected .* bytes"
    ):
        inputs.fetch(torch.tensor([9]))
    (tmp_path / "data/0002.tar").unlink()
    with pytest.raises(
        DataError, match=r"0002.tar, sample '002-000': cannot be read \(no file .*restore the shard"
    ):
        inputs.fetch(torch.tensor([10]))


def test_bytes_that_changed_are_named_with_shard_and_sample(shards, tmp_path):
    train = read_shards(shards).train
    begin = int(train.inputs.split.offsets[7])
    file = tmp_path / "data/0001.tar"
    content = bytearray(file.read_bytes())
    content[begin : begin + 20] = b"?" * 20
    file.write_bytes(content)
    for workers in (0, 2):
        with pytest.raises(DataError, match=r"^0001.tar, sample '001-002': cannot be decoded as an image"):
            list(fetch_batches(train.inputs, torch.arange(20).split(6), workers=workers))
