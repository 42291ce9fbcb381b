"""The lock of a run's folder: one holder at a time, none after a kill."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from pencil.errors import RunError
from pencil.run.lock import LOCK, locked

pytestmark = pytest.mark.slow

HOLD = """
import os, sys
from pathlib import Path
from pencil.run.lock import locked

with locked(Path(sys.argv[1])):
    if len(sys.argv) > 2 and os.fork() == 0:  # a worker that outlives its parent
        sys.stdin.read()
        os._exit(0)
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """A process that holds the lock of ``tmp_path / "run"`` until it is told or killed."""
    children = []

    def start(*more):
        command = [sys.executable, "-c", HOLD, str(tmp_path / "run"), *more]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        children.append(child)
        assert child.stdout.readline() == "held\n"
        return child

    yield start
    for child in children:
        child.kill()
        child.stdin.close()
        child.wait()
        child.stdout.close()


def test_the_folder_is_made_and_the_lock_can_be_had_again(tmp_path):
    for _ in range(2):
        with locked(tmp_path / "a" / "run"):
            assert (tmp_path / "a" / "run" / LOCK).exists()


def test_another_process_is_refused_and_told_who_holds_it(tmp_path, holder):
    child = holder()
    with pytest.raises(RunError, match=rf"another process \({child.pid} on .+\) is using it"):
        locked(tmp_path / "run").__enter__()
    child.communicate("")
    with locked(tmp_path / "run"):
        pass


def test_a_killed_process_holds_nothing(tmp_path, holder):
    child = holder()
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    with locked(tmp_path / "run"):
        pass


def test_a_worker_that_outlives_its_killed_parent_holds_nothing(tmp_path, holder):
    child = holder("with a worker")
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    with locked(tmp_path / "run"):
        pass


def test_waiting_ends_when_the_other_does(tmp_path, holder):
    child = holder()
    threading.Timer(0.3, child.kill).start()
    with locked(tmp_path / "run", wait_seconds=60):
        assert child.wait() == -signal.SIGKILL


def test_two_threads_of_one_process_are_kept_apart(tmp_path):
    with locked(tmp_path / "run"), pytest.raises(RunError, match="this process is already using it"):
        locked(tmp_path / "run").__enter__()


def test_a_link_in_place_of_the_lock_is_not_followed(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "precious").write_text("kept")
    (tmp_path / "run" / LOCK).symlink_to(tmp_path / "precious")
    with pytest.raises(RunError, match="cannot be written"):
        locked(tmp_path / "run").__enter__()
    assert (tmp_path / "precious").read_text() == "kept"


def test_what_another_wrote_into_the_lock_file_is_not_trusted(tmp_path, holder):
    holder()
    (tmp_path / "run" / LOCK).write_text('{"process": "\\u001b[31m", "host": []}')
    with pytest.raises(RunError, match="another process is using it"):
        locked(tmp_path / "run").__enter__()
