"""Several processes that train in one folder at once: one works, the others end with one line."""

import os
import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.slow

AT_ONCE = 3
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


@pytest.fixture
def start():
    """Starts ``pencil`` with some words, several times at once; kills what is left in the end."""
    children = []

    def begin(*words):
        command = [sys.executable, "-m", "pencil", *map(str, words), "--quiet"]
        started = [
            subprocess.Popen(
                command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
            )
            for _ in range(AT_ONCE)
        ]
        children.extend(started)
        return started

    yield begin
    for child in children:
        child.kill()
        child.communicate()


def losers_of(children):
    """What all but one said, once they have ended; and the one that is still at work."""
    deadline = time.monotonic() + 240
    while sum(child.poll() is None for child in children) > 1:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    (winner,) = [child for child in children if child.poll() is None]
    return [(child.returncode, child.stderr.read()) for child in children if child is not winner], winner


def reach_checkpoint(run, child):
    """Wait until the run has a checkpoint to go on from."""
    while not list((run / "checkpoints").glob("step-*")):
        assert child.poll() is None
        time.sleep(0.05)


def test_of_several_at_once_one_works_and_a_killed_one_blocks_nobody(start, points, tmp_path):
    run = tmp_path / "run"
    words = ("train", points, "--out", run, "--epochs", "1,100000,1", "--set", "checkpoint.steps=50")
    losers, winner = losers_of(start(*words))
    for code, said in losers:
        assert code == 2
        assert said.count("\n") == 1
        assert "is using it" in said or "already contains a run" in said
    reach_checkpoint(run, winner)
    winner.send_signal(signal.SIGKILL)
    winner.wait()
    losers, winner = losers_of(start("resume", run))
    assert [(code, said.count("\n")) for code, said in losers] == [(2, 1)] * (AT_ONCE - 1)
    assert all(f"another process ({winner.pid} on " in said for _, said in losers)
