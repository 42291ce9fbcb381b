"""Rows that cannot be read are found before training and left out."""

import numpy as np
import pytest
import torch
from PIL import Image

from pencil.data import (
    Examples,
    RowNumbers,
    Splits,
    TensorInputs,
    checking,
    leave_out_unreadable,
    read_image_folder,
    read_manifest,
    read_shards,
    write_index,
)
from pencil.errors import DataError, ExampleError
from pencil.stores import GivenLabels


@pytest.fixture
def photos(tmp_path):
    for name in ("train", "test"):
        for kind in ("cat", "dog"):
            folder = tmp_path / name / kind
            folder.mkdir(parents=True)
            for number in range(3):
                Image.new("RGB", (5, 4), (number, 0, 0)).save(folder / f"{number}.png")
    return tmp_path


def test_pictures_that_cannot_be_read_are_left_out_the_first_too(photos):
    (photos / "train/cat/0.png").write_bytes(b"no picture")
    (photos / "train/dog/2.png").write_bytes((photos / "train/dog/2.png").read_bytes()[:45])
    (photos / "test/cat/1.png").unlink()
    (photos / "test/cat/1.png").mkdir()
    (photos / "test/cat/1.png").rename(photos / "test/cat/.1.png")
    (photos / "test/cat/1.png").symlink_to("/dev/zero")
    splits = leave_out_unreadable(read_image_folder(photos))
    assert list(splits.train.ids) == [f"train/{name}.png" for name in ("cat/1", "cat/2", "dog/0", "dog/1")]
    assert splits.train.labels.values.tolist() == [0, 0, 1, 1]
    assert splits.train.inputs.fetch(torch.arange(4))[:, 0, 0, 0].tolist() == [1, 2, 0, 1]
    assert len(splits.test) == 5
    assert list(splits.skipped_rows) == ["train/cat/0.png", "train/dog/2.png", "test/cat/1.png"]
    assert "0.png: cannot be decoded" in splits.skipped_rows["train/cat/0.png"]


def test_data_without_faults_stay_as_they_are(photos):
    whole = read_image_folder(photos)
    splits = leave_out_unreadable(whole)
    assert splits.train is whole.train
    assert splits.skipped_rows == {}


def test_other_sizes_are_a_mistake_of_the_settings(photos):
    Image.new("RGB", (9, 9)).save(photos / "train/cat/1.png")
    train = leave_out_unreadable(read_image_folder(photos)).train
    assert len(train) == 6
    with pytest.raises(DataError, match="set size to resize"):
        train.inputs.fetch(torch.arange(6))


def test_a_split_of_which_nothing_can_be_read_is_refused(photos):
    for file in photos.glob("test/*/*.png"):
        file.write_bytes(b"")
    with pytest.raises(
        DataError, match=r"no example of the test split can be read; fix the files, first: .*0.png: cannot be"
    ):
        leave_out_unreadable(read_image_folder(photos))


def test_rows_of_a_manifest_keep_their_labels(photos):
    (photos / "train/cat/1.png").write_bytes(b"")
    lines = [f"train/{kind}/{number}.png,{kind}" for kind in ("dog", "cat") for number in range(3)]
    (photos / "t.csv").write_text("path,label\n" + "\n".join(lines))
    train = leave_out_unreadable(read_manifest(photos / "t.csv")).train
    assert [train.class_names[label] for label in train.labels.values.tolist()] == ["dog"] * 3 + ["cat"] * 2
    assert train.ids[4] == "train/cat/2.png"


@pytest.mark.parametrize("kind", ["images", "features"])
def test_samples_of_shards(tmp_path, shard_of, kind):
    shard_of(tmp_path / "a.tar", kind, bad=(0, 3))
    write_index({"train": [str(tmp_path / "a.tar")]}, tmp_path / "index")
    splits = leave_out_unreadable(read_shards(tmp_path / "index"))
    assert list(splits.train.ids) == [f"a.tar/{row}" for row in (1, 2, 4)]
    assert list(splits.skipped_rows) == ["a.tar/0", "a.tar/3"]
    assert len(splits.train.inputs.fetch(torch.arange(3))) == 3


@pytest.fixture
def shard_of():
    import io
    import tarfile

    def content(kind, bad):
        buffer = io.BytesIO()
        if kind == "images":
            Image.new("RGB", (4, 4)).save(buffer, "PNG")
            return b"no picture" if bad else buffer.getvalue()
        np.save(buffer, np.array([np.nan if bad else 1.0, 2.0]))
        return buffer.getvalue()

    def write(path, kind, bad):
        with tarfile.open(path, "w") as tar:
            for row in range(5):
                for end, data in (
                    ("png" if kind == "images" else "npy", content(kind, row in bad)),
                    ("cls", str(row % 2).encode()),
                ):
                    member = tarfile.TarInfo(f"{row}.{end}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))

    return write


class Letters(TensorInputs):
    """Inputs of somebody's own, of which the third cannot be read."""

    is_lazy = True

    def fetch(self, indices):
        if 2 in indices:
            raise ExampleError("letter 2: is torn; glue it")
        return super().fetch(indices)


def test_inputs_of_ones_own_are_checked_too_if_they_are_lazy(monkeypatch):
    letters = Letters(torch.arange(5.0)[:, None])
    whole = Examples(letters, GivenLabels.of([0, 1, 0, 1, 0]), ("a", "b"), RowNumbers(5))
    splits = leave_out_unreadable(Splits(whole))
    assert splits.skipped_rows == {"2": "letter 2: is torn; glue it"}
    assert splits.train.inputs.fetch(torch.arange(4)).flatten().tolist() == [0, 1, 3, 4]
    monkeypatch.setattr(Letters, "is_lazy", False)
    assert leave_out_unreadable(Splits(whole)).train is whole


def test_it_tells_how_far_it_is(photos, monkeypatch):
    monkeypatch.setattr(checking, "LINE_SECONDS", 0.0)
    told = []
    leave_out_unreadable(read_image_folder(photos), lambda *step: told.append(step))
    assert told == [(row + 1, 6) for row in range(6)] * 2
