"""Power loss: a disk that forgets what was not synced, a record of a real process, and work that goes on after it."""

import random
import shutil
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

WRITER = """
import os, time
from pathlib import Path
while "TracerPid:\\t0\\n" in Path("/proc/self/status").read_text():
    time.sleep(0.001)
time.sleep(0.05)
root = Path({root!r})
(root / "a").mkdir()
with (root / "a" / "grown").open("a") as file:
    for number in range(3):
        file.write(f"line {{number}}\\n")
        file.flush()
with (root / "a" / "changed").open("wb+") as file:
    file.write(b"0123456789")
    file.seek(2)
    file.read(2)
    file.write(b"xx")
    file.truncate(8)
    os.fsync(file.fileno())
(root / "a" / "gone").write_text("gone")
(root / "a" / "gone").unlink()
(root / "a" / "new").write_text("renamed")
(root / "a" / "new").rename(root / "a" / "old")
os.open(root / "a", os.O_RDONLY)
(root / "a").rename(root / "b")
(root / "b" / "last").write_text("last")
"""
needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is missing")


@pytest.fixture(scope="module")
def power(imported):
    with imported("faults.power") as module:
        yield module


def change(power, kind, name, data=b"", number=0, target=""):
    return power.Change(kind, f"/disk/{name}", data, number, f"/disk/{target}")


def outcomes(power, tmp_path, *changes):
    """What a file named ``new`` may hold after power loss, None for no such file."""
    found = set()
    for seed in range(60):
        disk = power.Disk(tmp_path.__class__("/disk"))
        disk.apply(changes)
        disk.after_loss(random.Random(seed), tmp_path / str(seed))
        file = tmp_path / str(seed) / "new"
        found.add(file.read_bytes() if file.exists() else None)
    return found


def test_what_was_synced_with_its_folder_is_there_in_any_case(power, tmp_path):
    steps = [
        change(power, "create", "partial"),
        change(power, "write", "partial", b"x" * 2000),
        change(power, "sync", "partial"),
        change(power, "rename", "partial", target="new"),
        change(power, "sync", ""),
    ]
    assert outcomes(power, tmp_path, *steps) == {b"x" * 2000}


def test_a_synced_file_whose_folder_was_not_is_there_whole_or_not_at_all(power, tmp_path):
    steps = [
        change(power, "create", "partial"),
        change(power, "write", "partial", b"x" * 2000),
        change(power, "sync", "partial"),
        change(power, "rename", "partial", target="new"),
    ]
    assert outcomes(power, tmp_path, *steps) == {None, b"x" * 2000}


def test_a_file_that_was_not_synced_may_be_empty_torn_or_all_zeros(power, tmp_path):
    steps = [
        change(power, "create", "new"),
        change(power, "write", "new", b"x" * 2000),
        change(power, "sync", ""),
    ]
    found = outcomes(power, tmp_path, *steps)
    assert {b"", b"x" * 2000} < found
    assert None not in found
    assert any(b"\0" in content and b"x" in content for content in found)


def test_of_a_file_that_grows_what_was_synced_before_stays(power, tmp_path):
    steps = [
        change(power, "create", "new"),
        change(power, "write", "new", b"first"),
        change(power, "sync", "new"),
        change(power, "sync", ""),
        change(power, "write", "new", b"second", 5),
    ]
    found = outcomes(power, tmp_path, *steps)
    assert all(content.startswith(b"first") for content in found)
    assert {b"first", b"firstsecond"} <= found


@needs_strace
def test_the_record_of_a_process_makes_the_files_that_it_left(power, tmp_path):
    root, log = tmp_path / "root", tmp_path / "log"
    root.mkdir()
    process = subprocess.Popen([sys.executable, "-c", WRITER.format(root=str(root))])
    tracer = power.attach(process.pid, log)
    assert process.wait() == 0
    tracer.wait()
    disk = power.Disk(root)
    disk.apply(power.changes(log, root))
    disk.now(tmp_path / "again")
    assert {file.name: file.read_bytes() for file in (tmp_path / "again" / "b").iterdir()} == {
        file.name: file.read_bytes() for file in (root / "b").iterdir()
    }
    assert disk.synced_names(root) == set()


@needs_strace
def test_after_power_loss_at_any_moment_everything_published_is_whole_and_work_goes_on(power):
    points = sum(power.QUICK.values())
    assert power.measure(quick=True) == {"power_loss_points": points, "power_loss_whole": points}
