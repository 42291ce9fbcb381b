"""Rows in raw files: as they stood, whoever changes them meanwhile, and for any number of ranks."""

import os
import resource
import tempfile
import threading
from pathlib import Path
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pencil.data import span
from pencil.engine import row_files
from pencil.engine.row_files import RowSnapshot, file_name, read_rows, write_rows
from pencil.errors import RunError

DTYPES = [torch.float32, torch.int16, torch.float64, torch.bfloat16]


def rows_of_rank(num_rows, rank, world_size, width=3, dtype=torch.float32):
    """At each position, numbers that tell which one it is."""
    owned = span(num_rows, rank, world_size)
    positions = torch.arange(owned.start, owned.stop)
    return {"values": (positions[:, None] + torch.arange(width) * 1000).to(dtype)}, owned


@settings(max_examples=60, deadline=None)
@given(
    num_rows=st.integers(8, 120),
    saving=st.integers(1, 8),
    restoring=st.integers(1, 8),
    piece=st.sampled_from([1, 7, 20, 1 << 20]),
    width=st.sampled_from([0, 1, 3]),
    dtype=st.sampled_from(DTYPES),
)
def test_rows_saved_by_some_ranks_are_read_by_any_others(num_rows, saving, restoring, piece, width, dtype):
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(row_files, "PIECE", piece):
        for rank in range(saving):
            state, owned = rows_of_rank(num_rows, rank, saving, width, dtype)
            write_rows(Path(folder), RowSnapshot(state, owned.start))
        for rank in range(restoring):
            expected, owned = rows_of_rank(num_rows, rank, restoring, width, dtype)
            found = {"values": torch.full_like(expected["values"], -1)}
            read_rows(Path(folder), found, owned)
            assert torch.equal(found["values"], expected["values"])


@settings(max_examples=60, deadline=None)
@given(num_rows=st.integers(1, 200), world_size=st.integers(1, 8), piece=st.integers(1, 40))
def test_pieces_hold_every_row_once_under_the_name_of_its_position(num_rows, world_size, piece):
    pieces = {}
    with mock.patch.object(row_files, "PIECE", piece):
        for rank in range(world_size):
            state, owned = rows_of_rank(num_rows, rank, world_size)
            pieces |= dict(RowSnapshot(state, owned.start).pieces())
    assert torch.cat([pieces[name][:, 0] for name in sorted(pieces)]).tolist() == list(range(num_rows))
    assert [int(name.rsplit("-", 1)[1]) for name in pieces] == [int(value[0, 0]) for value in pieces.values()]
    assert max(map(len, pieces.values())) <= piece


def test_a_store_of_several_tensors_keeps_them_apart(tmp_path):
    state = {"a": torch.arange(4), "b-2": torch.arange(8.0).reshape(4, 2)}
    marks = write_rows(tmp_path, RowSnapshot(state))
    assert (
        marks.keys() == {file_name("a", 0), file_name("b-2", 0)} == {path.name for path in tmp_path.iterdir()}
    )
    found = {name: torch.zeros_like(value) for name, value in state.items()}
    read_rows(tmp_path, found, range(4))
    assert all(torch.equal(found[name], state[name]) for name in state)


def test_rows_of_another_store_or_of_other_data_are_refused(tmp_path):
    write_rows(tmp_path, RowSnapshot({"values": torch.zeros(4, 2)}))
    for state, owned in (({"top": torch.zeros(4, 2)}, range(4)), ({"values": torch.zeros(5, 2)}, range(5))):
        with pytest.raises(
            RunError, match=r"holds \d of \d rows of the kind .*resume with the store and the data"
        ):
            read_rows(tmp_path, state, owned)


def test_a_file_that_is_cut_while_it_is_read_is_an_error(tmp_path):
    write_rows(tmp_path, RowSnapshot({"values": torch.zeros(4, 2)}))
    whole, open_file = tmp_path / file_name("values", 0), Path.open

    def cut_first(path, *args, **options):
        os.truncate(whole, 12)
        return open_file(path, *args, **options)

    with (
        mock.patch.object(Path, "open", cut_first),
        pytest.raises(RunError, match="ends after 12 of 32 bytes"),
    ):
        read_rows(tmp_path, {"values": torch.zeros(4, 2)}, range(4))


# rows that change while they are saved


@settings(max_examples=100, deadline=None)
@given(data=st.data(), piece=st.integers(1, 12))
def test_pieces_are_the_rows_as_they_stood_however_writes_fall_between_them(data, piece):
    values = torch.arange(20.0).reshape(10, 2)
    before = values.clone()
    snapshot, parts = RowSnapshot({"values": values}, at_rest=False), []
    with mock.patch.object(row_files, "PIECE", piece):
        pieces = snapshot.pieces()
        for number in range(-(-10 // piece)):
            for _ in range(data.draw(st.integers(0, 3))):
                rows = torch.tensor(data.draw(st.lists(st.integers(0, 9), unique=True)), dtype=torch.long)
                snapshot.note(rows)
                values[rows] = float(-1 - number)
            parts.append(next(pieces)[1])
        assert next(pieces, None) is None
    assert torch.equal(torch.cat(parts), before)


def test_rows_written_by_another_thread_meanwhile_are_saved_as_they_stood(tmp_path):
    values = torch.zeros(300_000, 4)
    snapshot = RowSnapshot({"values": values}, at_rest=False)
    begun, stop = threading.Event(), threading.Event()

    def write():
        generator = torch.Generator().manual_seed(0)
        while not stop.is_set():
            rows = torch.randperm(300_000, generator=generator)[:500]
            snapshot.note(rows)
            values[rows] += 1
            begun.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert begun.wait(60)
        with mock.patch.object(row_files, "PIECE", 10_000):
            write_rows(tmp_path, snapshot)
    finally:
        stop.set()
        writer.join()
    found = {"values": torch.ones(300_000, 4)}
    read_rows(tmp_path, found, range(300_000))
    assert values.any()
    assert not found["values"].any()


def test_after_the_last_piece_nothing_is_remembered():
    values = torch.zeros(5, 2)
    snapshot = RowSnapshot({"values": values}, at_rest=False)
    list(snapshot.pieces())
    snapshot.note(torch.arange(5))
    assert snapshot._overwritten == []


def test_rows_at_rest_are_not_copied():
    values = torch.zeros(5, 2)
    (_, piece), *_ = RowSnapshot({"values": values}).pieces()
    assert piece.data_ptr() == values.data_ptr()


def test_rows_that_find_no_room_are_an_error_and_not_a_shorter_file(tmp_path):
    state, owned = rows_of_rank(1000, 0, 1)  # 12,000 bytes
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            write_rows(tmp_path, RowSnapshot(state, owned.start))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
