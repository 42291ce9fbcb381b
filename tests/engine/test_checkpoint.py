"""A checkpoint is whole or it is not one: nothing cut, flipped or forged is ever loaded."""

import contextlib
import json
import math
import os
import shutil
import warnings
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pencil.engine import Checkpoints, Runtime
from pencil.engine.checkpoint import COMPLETE, damage, from_bytes, tensors_in, to_bytes
from pencil.engine.row_files import RowSnapshot, read_rows
from pencil.errors import RunError

pytestmark = pytest.mark.slow

RUNTIME = Runtime(device=torch.device("cpu"))
FILES = [".metadata", "__0_0.distcp", "rows-values-000000000000", COMPLETE]
DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
    torch.complex64,
]


def state_of(step):
    return {"weights": torch.full((3, 2), float(step)), "progress": to_bytes({"step": step})}


def rows_of(step):
    return RowSnapshot({"values": torch.full((5, 2), float(step))})


def empty_like(state):
    return {name: torch.zeros_like(value) for name, value in state.items()}


def saved(folder, *steps, keep=2):
    checkpoints = Checkpoints(folder, RUNTIME, keep)
    for step in steps:
        checkpoints.save(step, state_of(step), rows_of(step))
    return checkpoints


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """Two whole checkpoints, at steps 1 and 2."""
    folder = tmp_path_factory.mktemp("pair")
    saved(folder, 1, 2)
    return folder


@contextlib.contextmanager
def damaged(folder, file, change):
    """The newest checkpoint with one file's bytes changed; the file is fixed afterwards."""
    path = folder / "step-0000000002" / file
    content = path.read_bytes()
    path.write_bytes(change(content))
    try:
        yield path
    finally:
        path.write_bytes(content)


def assert_passed_over(folder):
    """The damaged newest checkpoint is not loaded, and the one before it is found, with a warning."""
    checkpoints = Checkpoints(folder, RUNTIME)
    with pytest.warns(UserWarning, match="step-0000000002 is not used"):
        assert checkpoints.newest() == folder / "step-0000000001"
    state = empty_like(state_of(0))
    with pytest.raises(RunError, match="cannot be loaded"):
        checkpoints.load(folder / "step-0000000002", state)
    assert torch.equal(state["weights"], torch.zeros(3, 2))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tensors_of_every_dtype_and_shape_come_back_exactly(tmp_path, dtype):
    values = 40 * torch.randn(4, 3, generator=torch.Generator().manual_seed(0)).double()
    state = {
        "matrix": values.to(dtype),
        "scalar": values[0, 0].to(dtype),
        "empty": values[:, :0].to(dtype),
        "view": values.to(dtype).t()[:, ::2],
        "with/slashes.and dots": values[0].to(dtype),
    }
    path = Checkpoints(tmp_path, RUNTIME).save(1, state)
    loaded = empty_like(state)
    Checkpoints(tmp_path, RUNTIME).load(path, loaded)
    for name, value in state.items():
        assert loaded[name].dtype == dtype
        assert torch.equal(loaded[name], value), name


def test_values_that_are_not_numbers_come_back_bit_for_bit(tmp_path):
    values = torch.tensor([math.nan, math.inf, -math.inf, -0.0, 5e-45])
    loaded = {"values": torch.zeros(5)}
    Checkpoints(tmp_path, RUNTIME).load(Checkpoints(tmp_path, RUNTIME).save(1, {"values": values}), loaded)
    assert torch.equal(loaded["values"].view(torch.int32), values.view(torch.int32))


def test_loading_fills_the_tensors_in_place_whatever_their_layout(tmp_path):
    images = torch.randn(2, 3, 4, 5)
    path = Checkpoints(tmp_path, RUNTIME).save(1, {"images": images})
    target = torch.zeros(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    address = target.data_ptr()
    Checkpoints(tmp_path, RUNTIME).load(path, {"images": target})
    assert target.data_ptr() == address
    assert target.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(target, images)


def test_later_changes_of_the_saved_tensors_do_not_reach_the_checkpoint(tmp_path):
    state = state_of(3)
    path = Checkpoints(tmp_path, RUNTIME).save(3, state)
    state["weights"].fill_(9)
    loaded = empty_like(state)
    Checkpoints(tmp_path, RUNTIME).load(path, loaded)
    assert torch.equal(loaded["weights"], torch.full((3, 2), 3.0))


def test_tensors_in_gives_empty_ones_of_the_right_shape_under_a_prefix(tmp_path):
    state = {"a/x": torch.ones(2, 3, dtype=torch.int8), "a/y": torch.ones(()), "b/x": torch.ones(4)}
    path = Checkpoints(tmp_path, RUNTIME).save(1, state)
    found = tensors_in(path, "a/")
    assert {name: (value.shape, value.dtype) for name, value in found.items()} == {
        "a/x": ((2, 3), torch.int8),
        "a/y": ((), torch.float32),
    }


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_the_newest_are_kept_and_older_ones_removed(tmp_path, keep):
    checkpoints = saved(tmp_path, 1, 5, 9, 10, 200, keep=keep)
    kept = [1, 5, 9, 10, 200][-keep:]
    assert names(tmp_path) == [f"step-{step:010d}" for step in kept]
    assert checkpoints.newest() == tmp_path / "step-0000000200"


def test_no_checkpoint_is_none(tmp_path):
    assert Checkpoints(tmp_path / "nowhere", RUNTIME).newest() is None


def test_the_same_step_may_be_saved_again(tmp_path):
    checkpoints = saved(tmp_path, 4)
    path = checkpoints.save(4, state_of(44))
    loaded = empty_like(state_of(44))
    checkpoints.load(path, loaded)
    assert torch.equal(loaded["weights"], torch.full((3, 2), 44.0))
    assert names(tmp_path) == ["step-0000000004"]


@pytest.mark.parametrize("keep", [1, 2])
def test_a_damaged_newer_checkpoint_never_costs_the_one_just_saved(tmp_path, keep):
    saved(tmp_path, 8, 9)
    for path in tmp_path.iterdir():
        (path / COMPLETE).unlink()
    checkpoints = saved(tmp_path, 3, keep=keep)
    with warnings.catch_warnings(record=True):
        assert checkpoints.newest() == tmp_path / "step-0000000003"
    checkpoints.save(4, state_of(4))
    assert checkpoints.newest() == tmp_path / "step-0000000004"


@pytest.mark.parametrize("file", FILES)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_file_cut_at_any_byte_is_never_loaded(pair, file, data):
    size = (pair / "step-0000000002" / file).stat().st_size
    cut = data.draw(st.integers(0, size - 1))
    with damaged(pair, file, lambda content: content[:cut]):
        assert_passed_over(pair)


@pytest.mark.parametrize("file", FILES[:3])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_file_with_one_bit_flipped_is_never_loaded(pair, file, data):
    size = (pair / "step-0000000002" / file).stat().st_size
    place, bit = data.draw(st.integers(0, size - 1)), data.draw(st.integers(0, 7))
    with damaged(pair, file, lambda content: flipped(content, place, 1 << bit)):
        assert_passed_over(pair)


def flipped(content, place, mask):
    return content[:place] + bytes([content[place] ^ mask]) + content[place + 1 :]


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_a_list_of_files_with_any_byte_changed_is_refused_unless_it_says_the_same(pair, data):
    content = (pair / "step-0000000002" / COMPLETE).read_bytes()
    place, mask = data.draw(st.integers(0, len(content) - 1)), data.draw(st.integers(1, 255))
    changed = flipped(content, place, mask)
    with damaged(pair, COMPLETE, lambda _: changed):
        if same_json(changed, content):  # one blank for another
            assert damage(pair / "step-0000000002") is None
        else:
            assert_passed_over(pair)


def same_json(one, other):
    try:
        return json.loads(one) == json.loads(other)
    except ValueError:
        return False


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "3",
        "[]",
        "{}",
        '"step"',
        '[["a", 1]]',
        "{",
        "\x00",
        pytest.param('{"a":' * 50_000, id="deep"),
    ],
)
def test_a_list_of_files_that_lists_none_is_refused(pair, text):
    with damaged(pair, COMPLETE, lambda _: text.encode()):
        assert_passed_over(pair)


@pytest.mark.parametrize("file", FILES)
def test_a_file_that_is_missing_or_grew_is_noticed(pair, file):
    with damaged(pair, file, lambda content: content) as path:
        path.unlink()
        assert_passed_over(pair)
    with damaged(pair, file, lambda content: content + b"x"):
        assert_passed_over(pair)


def test_an_empty_folder_and_a_file_of_that_name_are_no_checkpoints(pair, tmp_path):
    shutil.copytree(pair / "step-0000000001", tmp_path / "step-0000000001")
    (tmp_path / "step-0000000002").mkdir()
    (tmp_path / "step-0000000003").write_text("no folder")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert Checkpoints(tmp_path, RUNTIME).newest() == tmp_path / "step-0000000001"
    assert len(caught) == 2


def test_where_every_checkpoint_is_damaged_all_are_named_and_none_is_removed(pair, tmp_path):
    folder = tmp_path / "a run" / "checkpoints"
    shutil.copytree(pair, folder)
    (folder / "step-0000000001" / ".metadata").write_bytes(b"")
    (folder / "step-0000000002" / COMPLETE).unlink()
    told = (
        r"a run/checkpoints: every checkpoint is damaged \(step-0000000002: complete.json is missing or cut off; "
        r"step-0000000001: .metadata is missing or differs from what was written\); put back one from a copy, or begin "
        r"again with: pencil resume '.*a run' --from-start$"
    )
    with pytest.raises(RunError, match=told):
        Checkpoints(folder, RUNTIME).newest()
    assert names(folder) == ["step-0000000001", "step-0000000002"]


@pytest.mark.parametrize("step", [6, 7], ids=["same step", "another step"])
def test_a_leftover_of_an_interrupted_save_is_ignored_and_removed(tmp_path, step):
    leftover = tmp_path / ".step-0000000006.partial"
    leftover.mkdir()
    (leftover / "__9_0.distcp").write_bytes(b"half a che")
    checkpoints = Checkpoints(tmp_path, RUNTIME)
    assert checkpoints.newest() is None
    path = checkpoints.save(step, state_of(step), rows_of(step))
    assert checkpoints.newest() == path
    assert names(tmp_path) == [path.name]
    assert names(path) == sorted(FILES)


@pytest.mark.parametrize("moment", ["fingerprint", "sync", "publish"])
def test_a_save_that_dies_on_the_way_leaves_the_one_before(tmp_path, monkeypatch, moment):
    checkpoints = saved(tmp_path, 1)

    def die(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(f"pencil.engine.checkpoint.{moment}", die)
        with pytest.raises(KeyboardInterrupt):
            checkpoints.save(2, state_of(2))
    assert checkpoints.newest() == tmp_path / "step-0000000001"
    checkpoints.save(2, state_of(2))
    assert checkpoints.newest() == tmp_path / "step-0000000002"


def test_every_file_is_on_disk_whole_before_the_rename_that_publishes_it(tmp_path, monkeypatch):
    synced, published = {}, {}
    fsync, replace_ = os.fsync, Path.replace

    def note_sync(handle):
        fsync(handle)
        synced[os.fstat(handle).st_ino] = os.fstat(handle).st_size

    def note_rename(old, new):
        published.update({path: synced.get(path.stat().st_ino) for path in (old, *old.iterdir())})
        return replace_(old, new)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(Path, "replace", note_rename)
    path = Checkpoints(tmp_path / "checkpoints", RUNTIME).save(1, state_of(1), rows_of(1))
    partial = path.with_name(f".{path.name}.partial")
    assert published.pop(partial) is not None
    assert {file.name: size for file, size in published.items()} == {
        name: (path / name).stat().st_size for name in FILES
    }
    assert (tmp_path / "checkpoints").stat().st_ino in synced


def test_a_save_without_room_ends_in_the_systems_error_and_leaves_the_one_before(tmp_path, limited):
    checkpoints = saved(tmp_path, 1)
    with limited("RLIMIT_FSIZE", 700), pytest.raises(OSError, match="File too large"):
        checkpoints.save(2, state_of(2), rows_of(2))
    assert checkpoints.newest() == tmp_path / "step-0000000001"
    checkpoints.save(2, state_of(2), rows_of(2))
    assert names(tmp_path) == ["step-0000000001", "step-0000000002"]


def test_the_checkpoint_a_run_was_resumed_from_is_not_saved_again(tmp_path):
    saved(tmp_path, 1)
    before = {file: file.stat().st_ino for file in (tmp_path / "step-0000000001").iterdir()}
    checkpoints = Checkpoints(tmp_path, RUNTIME)
    assert checkpoints.newest() == checkpoints.save(1, state_of(1), rows_of(1))
    assert {file: file.stat().st_ino for file in (tmp_path / "step-0000000001").iterdir()} == before


# beside training


def test_what_is_saved_beside_training_is_the_state_as_it_was(tmp_path):
    checkpoints = Checkpoints(tmp_path, RUNTIME)
    state, values = state_of(1), torch.zeros(500_000, 8)
    rows = RowSnapshot({"values": values}, at_rest=False)
    checkpoints.begin(1, state, rows)
    state["weights"].fill_(9)
    for start in range(0, 500_000, 1000):
        some = torch.arange(start, start + 1000)
        rows.note(some)
        values[some] = 7
    checkpoints.wait()
    loaded, found = empty_like(state), {"values": torch.full((500_000, 8), -1.0)}
    checkpoints.load(tmp_path / "step-0000000001", loaded)
    read_rows(tmp_path / "step-0000000001", found, range(500_000))
    assert torch.equal(loaded["weights"], torch.full((3, 2), 1.0))
    assert not found["values"].any()


def test_what_goes_wrong_beside_training_is_raised_at_the_next_occasion(tmp_path, monkeypatch):
    checkpoints = saved(tmp_path, 1)

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("pencil.engine.checkpoint.write_rows", full)
        checkpoints.begin(2, state_of(2), rows_of(2))
        with pytest.raises(OSError, match="No space left"):
            checkpoints.wait()
    checkpoints.wait()  # told once
    assert checkpoints.newest() == tmp_path / "step-0000000001"


def test_saves_follow_one_another(tmp_path):
    checkpoints = Checkpoints(tmp_path, RUNTIME, keep=9)
    for step in range(1, 6):
        checkpoints.begin(step, state_of(step), rows_of(step))
    checkpoints.wait()
    assert names(tmp_path) == [f"step-{step:010d}" for step in range(1, 6)]
    assert all(damage(path) is None for path in tmp_path.iterdir())


@pytest.mark.parametrize("file", FILES[:3])
def test_every_file_is_looked_at_by_one_of_the_ranks(pair, file):
    path = pair / "step-0000000002"
    with damaged(pair, file, lambda content: flipped(content, 0, 1)):
        found = [damage(path, rank, 3) for rank in range(3)]
    assert len([problem for problem in found if problem]) == 1
    assert [damage(path, rank, 3) for rank in range(3)] == [None] * 3


plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4)


@settings(max_examples=40, deadline=None)
@given(
    value=st.dictionaries(
        st.text(max_size=4), plain | st.dictionaries(st.text(max_size=4), plain, max_size=2), max_size=3
    )
)
def test_bytes_give_back_exactly_what_they_were_given(value):
    encoded = to_bytes(value)
    assert encoded.dtype == torch.uint8
    assert from_bytes(encoded) == value


@given(value=st.floats(allow_nan=True))
@settings(deadline=None)
def test_floats_pass_through_bytes_unchanged(value):
    assert repr(from_bytes(to_bytes({"value": value}))["value"]) == repr(value)
