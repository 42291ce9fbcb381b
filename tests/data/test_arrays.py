"""Arrays that claim more than they hold, hold what must not be loaded, or are none."""

import io
import os
import zipfile

import numpy as np
import pytest

from pencil.data import arrays
from pencil.data.arrays import load_array, npz_keys
from pencil.errors import DataError


def npy(header: str, content: bytes = b"", version=(1, 0)) -> bytes:
    text = header.encode("latin1") + b"\n"
    size = len(text).to_bytes(2 if version == (1, 0) else 4, "little")
    return b"\x93NUMPY" + bytes(version) + size + text + content


def described(shape, kind="<f8"):
    return f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"


HEADERS = {
    "cut short": described("(3,)")[:20],
    "no python": "{'descr': $$",
    "unclosed": "{'descr': '<f8', 'shape': (((((",
    "deep": "(" * 5000,
    "digits": described(f"({'9' * 5000},)"),
    "call": "__import__('os').system('true')",
    "keys": "{'descr': '<f8'}",
    "negative": described("(-1,)"),
    "huge": described("(1000000000000,)"),
    "many": described("(99999999999999999999999999,)"),
    "nothing large": described("(99999999,)", "|S0"),
    "objects": described("(1,)", "|O"),
    "strange": described("(1,)", "<q9"),
}


@pytest.mark.parametrize("packed", [False, True], ids=["npy", "npz"])
@pytest.mark.parametrize("name", HEADERS)
def test_headers_that_lie(tmp_path, name, packed):
    content = npy(HEADERS[name], b"\x80\x04.")
    path = tmp_path / ("a.npz" if packed else "a.npy")
    if packed:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("X.npy", content)
    else:
        path.write_bytes(content)
    with pytest.raises(DataError, match=rf"{path.name}.*cannot read it as numpy data without pickled"):
        load_array(path, "X" if packed else None)


def test_version_two_is_read_and_others_are_refused(tmp_path):
    (tmp_path / "a.npy").write_bytes(npy(described("(2,)"), np.arange(2.0).tobytes(), (2, 0)))
    assert load_array(tmp_path / "a.npy").tolist() == [0, 1]
    (tmp_path / "a.npy").write_bytes(npy(described("(2,)"), np.arange(2.0).tobytes(), (9, 0)))
    with pytest.raises(DataError, match=r"a.npy: cannot read it"):
        load_array(tmp_path / "a.npy")


def test_an_archive_that_unpacks_to_far_more_is_refused(tmp_path):
    path = tmp_path / "bomb.npz"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("X.npy", "w", force_zip64=True) as file,
    ):
        file.write(npy(described("(300, 1048576)", "|u1")))
        for _ in range(300):
            file.write(bytes(1 << 20))
    with pytest.raises(
        DataError, match=r"'X': .*would unpack from [\d,]+ to 314,572,\d+ bytes; .*save it unpacked"
    ):
        load_array(path, "X")


def test_what_shrinks_for_good_reason_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(arrays, "FREE_BYTES", 1000)
    sparse = np.zeros(100_000)
    sparse[::10] = np.random.default_rng(0).normal(size=10_000)
    np.savez_compressed(tmp_path / "a.npz", X=sparse)
    assert np.array_equal(load_array(tmp_path / "a.npz", "X"), sparse)
    np.savez(tmp_path / "b.npz", X=np.zeros(100_000))  # as large as it says
    assert len(load_array(tmp_path / "b.npz", "X")) == 100_000


@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_come_back_as_they_were(tmp_path, order):
    array = np.arange(12, dtype=">i2").reshape(3, 4).copy(order=order)
    np.save(tmp_path / "a.npy", array)
    np.savez(tmp_path / "a.npz", array)
    for found in (load_array(tmp_path / "a.npy"), load_array(tmp_path / "a.npz", "arr_0")):
        assert np.array_equal(found, array)
        assert found.dtype == array.dtype
    empty = np.empty((0, 3))
    np.save(tmp_path / "b.npy", empty)
    assert load_array(tmp_path / "b.npy").shape == (0, 3)


@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
def test_pipes_are_not_waited_for(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(DataError, match="is not a plain file"):
        load_array(tmp_path / name) if name == "a.npy" else npz_keys(tmp_path / name)


def test_a_member_changed_after_it_was_packed_is_refused(tmp_path):
    buffer = io.BytesIO()
    np.savez(buffer, X=np.arange(1000.0))
    content = bytearray(buffer.getvalue())
    content[4000] ^= 1
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(DataError, match=r"array 'X'.*CRC"):
        load_array(tmp_path / "a.npz", "X")
