import os
import pickle
import struct

import numpy as np
import pytest
import torch

from pencil.data.readers.cifar import read_cifar
from pencil.errors import DataError

NAMES10 = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
FINE = [f"fine_{number}" for number in range(100)]
COARSE = [f"coarse_{number}" for number in range(20)]


def pixels(count, seed):
    return np.random.default_rng(seed).integers(0, 256, (count, 3072), dtype=np.uint8)


def short(text):
    return b"U" + bytes([len(text)]) + text.encode()


def python2_pickle(entries):
    """The opcodes Python 2 with protocol 2 wrote into the official files: byte strings, numpy.core, int flags."""
    return (
        b"\x80\x02}(" + b"".join(short(key) + python2_value(value) for key, value in entries.items()) + b"u."
    )


def python2_value(value):
    if isinstance(value, list):
        return b"](" + b"".join(short(v) if isinstance(v, str) else b"K" + bytes([v]) for v in value) + b"e"
    raw = value.tobytes()
    dtype = b"cnumpy\ndtype\n(" + short("u1") + b"K\x00K\x01tR(K\x03" + short("|") + b"NNN"
    dtype += b"J\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    shape = b"M" + struct.pack("<H", value.shape[0]) + b"M" + struct.pack("<H", value.shape[1]) + b"\x86"
    start = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + short("b") + b"\x87R"
    return start + b"(K\x01" + shape + dtype + b"\x89T" + struct.pack("<I", len(raw)) + raw + b"tb"


def python3_pickle(entries):
    return pickle.dumps({key.encode(): value for key, value in entries.items()}, protocol=2)


def write_cifar10(parent, layout, dump=python2_pickle):
    folder = parent / f"cifar-10-batches-{layout}"
    folder.mkdir()
    for seed, stem in enumerate([*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]):
        data, labels = pixels(2, seed), [seed, 9]
        if layout == "bin":
            rows = np.concatenate([np.array(labels, np.uint8)[:, None], data], axis=1)
            (folder / f"{stem}.bin").write_bytes(rows.tobytes())
        else:
            (folder / stem).write_bytes(
                dump({"data": data, "labels": labels, "filenames": ["a.png", "b.png"]})
            )
    (folder / "batches.meta.txt").write_text("\n".join(NAMES10) + "\n\n")
    if layout == "py":
        (folder / "batches.meta").write_bytes(dump({"label_names": NAMES10}))
    return folder


def write_cifar100(parent, layout):
    folder = parent / f"cifar-100-{layout}"
    folder.mkdir()
    for seed, stem in enumerate(["train", "test"]):
        data, coarse, fine = pixels(3, seed), [1, 2, 19], [10, 20, 99]
        if layout == "binary":
            rows = np.concatenate([np.array([coarse, fine], np.uint8).T, data], axis=1)
            (folder / f"{stem}.bin").write_bytes(rows.tobytes())
        else:
            entries = {"data": data, "coarse_labels": coarse, "fine_labels": fine}
            (folder / stem).write_bytes(python2_pickle(entries))
    (folder / "fine_label_names.txt").write_text("\n".join(FINE) + "\n")
    (folder / "coarse_label_names.txt").write_text("\n".join(COARSE) + "\n")
    if layout == "python":
        meta = {"fine_label_names": FINE, "coarse_label_names": COARSE}
        (folder / "meta").write_bytes(python2_pickle(meta))
    return folder


@pytest.mark.parametrize(("layout", "dump"), [("bin", None), ("py", python2_pickle), ("py", python3_pickle)])
@pytest.mark.parametrize("inside", [True, False])
def test_cifar10(tmp_path, layout, dump, inside):
    folder = write_cifar10(tmp_path, layout, dump)
    splits = read_cifar(folder if inside else tmp_path)
    assert splits.train.class_names == tuple(NAMES10)
    assert splits.train.labels.values.tolist() == [0, 9, 1, 9, 2, 9, 3, 9, 4, 9]
    assert splits.test.labels.values.tolist() == [5, 9]
    images = splits.train.inputs.values
    assert (images.dtype, images.shape) == (torch.uint8, (10, 3, 32, 32))
    assert np.array_equal(images[2:4].reshape(2, -1), pixels(2, 1))
    assert np.array_equal(splits.test.inputs.values.reshape(2, -1), pixels(2, 5))
    assert list(splits.train.ids) == [str(row) for row in range(10)]


@pytest.mark.parametrize("layout", ["binary", "python"])
@pytest.mark.parametrize(
    ("label", "expected", "classes"), [("fine", [10, 20, 99], 100), ("coarse", [1, 2, 19], 20)]
)
def test_cifar100(tmp_path, layout, label, expected, classes):
    write_cifar100(tmp_path, layout)
    splits = read_cifar(tmp_path, 100, label)
    assert splits.train.labels.values.tolist() == expected
    assert splits.train.num_classes == classes
    assert splits.train.class_names[1] == f"{label}_1"
    assert np.array_equal(splits.test.inputs.values.reshape(3, -1), pixels(3, 1))


class Malice:
    """Pickled, a call of a function; unpickled carelessly, that call made."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_malicious_pickle_runs_nothing(tmp_path, protocol):
    folder, trace = write_cifar10(tmp_path, "py"), tmp_path / "trace"
    for malice in (Malice(os.system, f"touch {trace}"), Malice(eval, f"open({str(trace)!r}, 'w')")):
        data = pickle.dumps({"data": malice, "labels": []}, protocol=protocol)
        (folder / "data_batch_2").write_bytes(data)
        with pytest.raises(DataError, match=r"data_batch_2: the pickle asks for .*not loaded"):
            read_cifar(folder)
        assert not trace.exists()
    pickle.loads(data)["data"].close()  # the same bytes, read carelessly, do act
    assert trace.exists()


def test_only_arrays_of_bytes_and_latin1_are_rebuilt(tmp_path):
    folder = write_cifar10(tmp_path, "py")
    wide = pickle.dumps({"data": np.zeros((1, 3072)), "labels": [0]}, protocol=2)
    (folder / "test_batch").write_bytes(wide)
    with pytest.raises(DataError, match="array of type 'f8'"):
        read_cifar(folder)
    (folder / "test_batch").write_bytes(
        b"\x80\x02c_codecs\nencode\n" + b"X\x01\x00\x00\x00a" + short("hex") + b"\x86R."
    )
    with pytest.raises(DataError, match="the encoding 'hex'"):
        read_cifar(folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "EOFError"),
        (b"\x80\x02garbage", "cannot be read"),
        (pickle.dumps([1]), "holds a list"),
        (python2_pickle({"labels": [0]}), "no entry 'data'; found labels"),
        (python2_pickle({"data": pixels(2, 0), "labels": [0]}), "2 images and 1 labels"),
        (python2_pickle({"data": pixels(2, 0)[:, :9], "labels": [0, 1]}), r"not a uint8 array \(n, 3072\)"),
        (python2_pickle({"data": pixels(1, 0), "labels": ["cat"]}), "not a list of whole numbers"),
        (python2_pickle({"data": pixels(1, 0), "labels": [10]}), "label 10 is out of range"),
        (python2_pickle({"data": pixels(2, 0), "labels": [0, 1]})[:-3000], "cannot be read"),
    ],
)
def test_damaged_python_files_are_named(tmp_path, content, message):
    folder = write_cifar10(tmp_path, "py")
    (folder / "test_batch").write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_cifar(folder)


def test_damaged_or_missing_binary_files_are_named(tmp_path):
    folder = write_cifar10(tmp_path, "bin")
    (folder / "data_batch_3.bin").write_bytes(bytes(3074))
    with pytest.raises(DataError, match=r"data_batch_3.bin: 3074 bytes are not a number of records of 3073"):
        read_cifar(folder)
    (folder / "data_batch_3.bin").unlink()
    with pytest.raises(DataError, match=r"data_batch_3.bin: cannot be read"):
        read_cifar(folder)


def test_a_wrong_folder_or_choice_is_named(tmp_path):
    with pytest.raises(
        DataError, match=r"cifar-100-binary or cifar-100-python in it holds train.bin or train"
    ):
        read_cifar(tmp_path, 100)
    with pytest.raises(DataError, match="num_classes=10, label='coarse'"):
        read_cifar(tmp_path, 10, "coarse")


def test_a_pickle_that_numbers_its_memo_without_end_takes_no_memory(tmp_path):
    """The C implementation of pickle makes room for the number, here 32 GB."""
    for name in ("data_batch_1", "batches.meta"):
        (tmp_path / name).write_bytes(b"\x80\x02}r\xff\xff\xff\x7f.")
    with pytest.raises(DataError, match=r"batches.meta: no entry 'label_names'"):
        read_cifar(tmp_path)
