"""A checkpoint's index: read without running code, checked against its folder, and read by DCP never."""

import contextlib
import json
import pickle
import zlib
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import BytesStorageMetadata, Metadata

from pencil.engine import Checkpoints, Runtime, checkpoint
from pencil.engine.checkpoint import COMPLETE, damage, tensors_in
from pencil.engine.index import INDEX, read_index
from pencil.errors import RunError

pytestmark = pytest.mark.slow

STATE = {"weights": torch.arange(12.0).reshape(3, 4), "steps": torch.tensor(7)}


@pytest.fixture
def checkpoints(tmp_path):
    return Checkpoints(tmp_path / "checkpoints", Runtime(device=torch.device("cpu")))


@pytest.fixture
def path(checkpoints):
    return checkpoints.save(1, STATE)


def empty():
    return {name: torch.zeros_like(value) for name, value in STATE.items()}


class Malicious:
    """Unpickled, it would leave a file behind."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("wrap", [lambda evil: evil, lambda evil: {"state_dict_metadata": [evil]}])
def test_an_index_that_would_run_code_is_refused_and_runs_nothing(tmp_path, checkpoints, path, wrap):
    trace = tmp_path / "trace"
    (path / ".metadata").write_bytes(pickle.dumps(wrap(Malicious(trace))))
    forge_list(path)
    assert damage(path) is None  # whoever forges the index can forge the list too
    for attempt in (
        lambda: read_index(path),
        lambda: tensors_in(path, "weights"),
        lambda: checkpoints.load(path, empty()),
    ):
        with pytest.raises(RunError, match="was not written by this program"):
            attempt()
    assert not trace.exists()
    pickle.loads((path / ".metadata").read_bytes())
    assert trace.exists()  # it would have


def forge_list(path):
    files = {
        file.name: [file.stat().st_size, zlib.crc32(file.read_bytes())]
        for file in path.iterdir()
        if file.name != COMPLETE
    }
    (path / COMPLETE).write_text(json.dumps(files))


def test_an_index_swapped_after_it_was_read_is_not_read_again(tmp_path, checkpoints, path, monkeypatch):
    trace = tmp_path / "trace"

    def read_then_swap(folder):
        index = read_index(folder)
        (folder / INDEX).write_bytes(pickle.dumps(Malicious(trace)))
        return index

    monkeypatch.setattr(checkpoint, "read_index", read_then_swap)
    loaded = empty()
    checkpoints.load(path, loaded)
    assert not trace.exists()
    assert all(torch.equal(loaded[name], STATE[name]) for name in STATE)


def rewritten(path, change):
    index = read_index(path)
    change(index)
    (path / INDEX).write_bytes(pickle.dumps(index))
    forge_list(path)


def relocate(name=None, offset=None, length=None):
    def change(index):
        for key, info in index.storage_data.items():
            index.storage_data[key] = _StorageInfo(
                name or info.relative_path,
                info.offset if offset is None else offset,
                info.length if length is None else length,
            )

    return change


def enlarge(index):
    index.state_dict_metadata["weights"].size = torch.Size([3, 1 << 40])


def move_chunk(index):
    index.state_dict_metadata["weights"].chunks[0].offsets = torch.Size([1, 0])


def compress(index):
    for info in index.storage_data.values():
        info.transform_descriptors = ["stream.zstd"]


CHANGES = {
    "a file outside the folder": relocate("../step-0000000001/__0_0.distcp"),
    "an absolute path": relocate("/dev/zero"),
    "another file of the folder": relocate(COMPLETE),
    "a missing file": relocate("__7_0.distcp"),
    "a negative offset": relocate(offset=-1),
    "bytes past the end": relocate(length=1 << 40),
    "a tensor larger than its bytes": enlarge,
    "a chunk outside its tensor": move_chunk,
    "an extension to unpack with": compress,
}


@pytest.mark.parametrize("what", CHANGES)
def test_an_index_that_names_what_the_folder_does_not_hold_is_refused(checkpoints, path, what):
    rewritten(path, CHANGES[what])
    with pytest.raises(RunError, match="the checkpoint's index"):
        checkpoints.load(path, empty())
    with pytest.raises(RunError, match="the checkpoint's index"):
        tensors_in(path, "")


def test_a_link_in_place_of_a_file_is_refused(tmp_path, checkpoints, path):
    data = next(path.glob("__0_*"))
    data.rename(tmp_path / "elsewhere")
    data.symlink_to(tmp_path / "elsewhere")
    assert "missing or differs" in damage(path)
    with pytest.raises(RunError, match="does not have"):
        read_index(path)


def test_a_listed_name_outside_the_folder_is_damage(path):
    listed = json.loads((path / COMPLETE).read_text())
    listed["../other"] = [0, 0]
    (path.parent / "other").write_bytes(b"")
    (path / COMPLETE).write_text(json.dumps(listed))
    assert "../other is missing or differs" in damage(path)


def test_a_checkpoint_of_another_network_is_refused_in_one_line(checkpoints, path):
    with pytest.raises(RunError, match="does not fit this run") as caught:
        checkpoints.load(path, {"weights": torch.zeros(5, 4)})
    assert "\n" not in str(caught.value)
    with pytest.raises(RunError, match="does not fit this run"):
        checkpoints.load(path, {"others": torch.zeros(3, 4)})


def test_an_index_of_pickled_objects_instead_of_tensors_is_refused(tmp_path):
    """DCP unpickles such entries without any check."""
    (tmp_path / INDEX).write_bytes(
        pickle.dumps(Metadata(state_dict_metadata={"weights": BytesStorageMetadata()}))
    )
    with pytest.raises(RunError, match="BytesStorageMetadata"):
        read_index(tmp_path)


DOTTED = b"\x80\x04\x8c\x05torch\x8c\x10serialization.os\x93."  # protocol 4 follows dots through attributes


@pytest.mark.parametrize("name", [b"cos\nsystem\n.", b"cbuiltins\neval\n.", b"ctorch\nload\n.", DOTTED])
def test_no_name_but_those_of_the_records_is_looked_up(tmp_path, name):
    (tmp_path / INDEX).write_bytes(name)
    with pytest.raises(RunError, match="asks for"):
        read_index(tmp_path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    place = tmp_path_factory.mktemp("whole")
    folder = Checkpoints(place, Runtime(device=torch.device("cpu"))).save(1, STATE)
    return folder, (folder / INDEX).read_bytes()


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_an_index_of_any_bytes_is_read_or_refused_in_words(whole, data):
    folder, content = whole
    place = data.draw(st.integers(0, len(content) - 1))
    noise = data.draw(st.binary(max_size=4))
    (folder / INDEX).write_bytes(content[:place] + noise + content[place + len(noise) + 1 :])
    with contextlib.suppress(RunError):
        read_index(folder)
