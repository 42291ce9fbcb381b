import gzip
import struct

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pencil.data.readers.idx import read_idx, read_idx_array
from pencil.errors import DataError
from pencil.kinds import IdxData
from pencil.run import read_splits

CODES = {"u1": 0x08, "i1": 0x09, "i2": 0x0B, "i4": 0x0C, "f4": 0x0D, "f8": 0x0E}


def idx_bytes(array):
    code = CODES[array.dtype.str[1:]]
    header = struct.pack(f">2x2B{array.ndim}I", code, array.ndim, *array.shape)
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


def write_split(root, split, count, *, zipped=False):
    images = np.arange(count * 28 * 28).reshape(count, 28, 28).astype(np.uint8)
    labels = (np.arange(count) % 3).astype(np.uint8)
    for stem, array in ((f"{split}-images-idx3-ubyte", images), (f"{split}-labels-idx1-ubyte", labels)):
        data = idx_bytes(array)
        (root / (stem + ".gz" * zipped)).write_bytes(gzip.compress(data) if zipped else data)
    return images, labels


@given(
    st.sampled_from(sorted(CODES)).flatmap(
        lambda code: hnp.arrays(
            np.dtype(code),
            hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4),
            elements={"allow_nan": False} if code[0] == "f" else None,
        )
    ),
    st.booleans(),
)
def test_every_array_comes_back(tmp_path_factory, array, zipped):
    path = tmp_path_factory.mktemp("idx") / "array"
    path.write_bytes(gzip.compress(idx_bytes(array)) if zipped else idx_bytes(array))
    read = read_idx_array(path)
    assert read.numpy().dtype == array.dtype
    assert np.array_equal(read.numpy(), array)


@pytest.mark.parametrize("zipped", [False, True])
def test_official_files(tmp_path, zipped):
    images, labels = write_split(tmp_path, "train", 5, zipped=zipped)
    write_split(tmp_path, "t10k", 4, zipped=zipped)
    splits = read_idx(tmp_path)
    assert splits.train.inputs.values.shape == (5, 1, 28, 28)
    assert splits.train.inputs.values.dtype == torch.uint8
    assert np.array_equal(splits.train.inputs.values[:, 0], images)
    assert splits.train.labels.values.tolist() == labels.tolist()
    assert splits.train.class_names == ("0", "1", "2")
    assert len(splits.test) == 4


def test_test_files_may_be_absent_but_not_one_of_them(tmp_path):
    write_split(tmp_path, "train", 3)
    assert read_idx(tmp_path).test is None
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(b"")
    with pytest.raises(DataError, match=r"neither t10k-images-idx3-ubyte nor t10k-images-idx3-ubyte.gz"):
        read_idx(tmp_path)


def test_settings_name_the_classes(tmp_path):
    write_split(tmp_path, "train", 3)
    data = IdxData(kind="idx", path=str(tmp_path), class_names=("shirt", "bag", "boot"))
    assert read_splits(data).train.class_names == ("shirt", "bag", "boot")


def test_class_names_are_taken_and_must_suffice(tmp_path):
    write_split(tmp_path, "train", 3)
    assert read_idx(tmp_path, ["shirt", "bag", "boot", "hat"]).train.num_classes == 4
    with pytest.raises(DataError, match="label 2 is out of range"):
        read_idx(tmp_path, ["shirt", "bag"])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "begins with nothing"),
        (b"\x00\x00\x07\x01" + bytes(4), "begins with 00 00 07 01"),
        (b"\x00\x01\x08\x01" + bytes(4), "not an IDX file"),
        (b"\x00\x00\x08\x00", "not an IDX file"),
        (b"\x00\x00\x08\x03" + bytes(8), "ends inside its header of 16 bytes"),
        (b"\x00\x00\x08\x01\x00\x00\x00\x05abc", "needs 13 bytes, found 11"),
        (b"\x00\x00\x08\x01\x00\x00\x00\x02abc", "needs 10 bytes, found 11"),
        (b"\x00\x00\x08\x03" + b"\xff" * 12, "fetch the file again"),
        (gzip.compress(b"\x00\x00\x08\x01\x00\x00\x00\x01a", mtime=0)[:-9], "cannot be read"),
    ],
)
def test_damaged_arrays_are_named(tmp_path, data, message):
    path = tmp_path / "damaged"
    path.write_bytes(data)
    with pytest.raises(DataError, match=message) as caught:
        read_idx_array(path)
    assert str(path) in str(caught.value)


def test_images_and_labels_must_fit(tmp_path):
    write_split(tmp_path, "train", 3)
    path = tmp_path / "train-labels-idx1-ubyte"
    path.write_bytes(idx_bytes(np.zeros(2, np.uint8)))
    with pytest.raises(DataError, match="3 train images and 2 labels"):
        read_idx(tmp_path)
    path.write_bytes(idx_bytes(np.zeros((3, 1), np.uint8)))
    with pytest.raises(DataError, match="expected 1 dimensions of uint8"):
        read_idx(tmp_path)


def test_missing_folder(tmp_path):
    with pytest.raises(DataError, match="give the folder"):
        read_idx(tmp_path / "nowhere")


def test_a_packed_array_that_unpacks_to_far_more_is_refused_unread(tmp_path, monkeypatch):
    monkeypatch.setattr("pencil.data.arrays.FREE_BYTES", 1000)
    head = b"\x00\x00\x08\x01" + (10**7).to_bytes(4, "big")
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(head + bytes(10**7)))
    with pytest.raises(DataError, match=r"bomb.gz: cannot be read \(it would unpack from"):
        read_idx_array(tmp_path / "bomb.gz")


def test_of_a_stream_longer_than_its_header_no_more_is_unpacked(tmp_path):
    (tmp_path / "long.gz").write_bytes(gzip.compress(b"\x00\x00\x08\x01\x00\x00\x00\x02" + bytes(10**7)))
    with pytest.raises(DataError, match=r"needs 10 bytes, found 11; fetch"):
        read_idx_array(tmp_path / "long.gz")
