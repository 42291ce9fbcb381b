"""Runs killed by SIGKILL, at moments and before system calls, of one process and of two ranks: all end alike."""

import shutil

import pytest

pytestmark = pytest.mark.slow


def test_killed_runs_that_are_resumed_end_as_if_nothing_had_happened(imported):
    with imported("faults.kills") as kills:
        amount = kills.QUICK
        found = kills.measure(quick=True)
    by_call = amount.calls if shutil.which("strace") else 0
    points = len(kills.STORES) * (amount.timed + by_call) + amount.ranks
    assert found == {"kill_points": points, "kill_points_identical": points}
