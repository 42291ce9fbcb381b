"""Bounded reading: what is not a plain file, too large or too deep is refused in one sentence."""

import os
import threading
import tracemalloc

import pytest

from pencil.errors import DataError, RunError
from pencil.reading import is_file, open_plain, parse_json, read_bytes, read_json, read_text


def test_reads_a_plain_file(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('\ufeff{"a": [1, 2.5, "é"]}', encoding="utf-8")
    assert read_text(path, limit=100) == '{"a": [1, 2.5, "é"]}'
    assert parse_json(read_text(path, limit=100), source=path) == {"a": [1, 2.5, "é"]}


def test_a_pipe_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    done = threading.Event()

    def look():
        with pytest.raises(DataError, match="not a plain file"):
            open_plain(tmp_path / "pipe")
        done.set()

    threading.Thread(target=look, daemon=True).start()
    assert done.wait(5)


@pytest.mark.parametrize("name", ["/dev/zero", "/dev/null", "/"])
def test_devices_and_folders_are_refused(name):
    with pytest.raises(RunError, match="not a plain file"):
        open_plain(name, error=RunError)


def test_a_name_that_no_file_could_have_is_no_file(tmp_path):
    (tmp_path / "there").touch()
    assert is_file(tmp_path / "there")
    assert not is_file(tmp_path / ("x" * 300))


@pytest.mark.parametrize("name", ["missing", "with\0null"])
def test_what_cannot_be_opened_is_named(tmp_path, name):
    with pytest.raises(DataError, match="cannot be read"):
        open_plain(tmp_path / name)


def test_a_file_past_the_limit_is_refused(tmp_path):
    path = tmp_path / "big"
    path.write_bytes(b"x" * 11)
    assert len(read_bytes(path, limit=11)) == 11
    with pytest.raises(DataError, match="larger than the limit of 10 bytes"):
        read_bytes(path, limit=10)


@pytest.mark.parametrize("text", ["[" * 10**6, '{"a":' * 10**5, "9" * 5000, "{", b"\xff\xfe\x00", "nul"])
def test_json_that_cannot_be_read_is_one_error(tmp_path, text):
    path = tmp_path / "a.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(DataError, match="not valid JSON"):
        read_json(path)


def test_a_small_file_takes_little_room_however_much_it_may_hold(tmp_path):
    (tmp_path / "small").write_bytes(b"x")
    tracemalloc.start()
    assert read_bytes(tmp_path / "small", limit=1 << 34) == b"x"
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20
