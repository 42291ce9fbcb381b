"""Damaged files by every reader: nothing but errors of ours; and the harness notices whatever else there is."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "faults" / "fuzz.py"
FAULTS = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from faults import fuzz
from faults.fuzz_target import Target
from pencil.errors import DataError

fuzz.SECONDS, fuzz.MEMORY = 0.2, 1 << 28

def at(fault):
    def make(folder):
        calls = []
        def read(content):
            calls.append(content)
            if len(calls) == 3:  # the first call is with the seed itself
                fault()
            if len(calls) > 1:
                raise DataError("refused")
        return [b"x"], read
    return Target("fault", make)

def hang():
    while True:
        pass

def swallow():
    try:
        hang()
    except Exception:
        pass

for fault in (lambda: {}["x"], hang, swallow, lambda: bytes(1 << 29), lambda: os.abort(), lambda: sys.exit(0)):
    assert fuzz.attempt(at(fault), 3) == 1, fault
assert fuzz.attempt(at(lambda: None), 3) == 0
print("noticed")
"""


def run(*words):
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False, timeout=600)


REPLAY = """
import sys
sys.path.insert(0, sys.argv[1])
from faults import fuzz
from pencil.errors import PencilError

for word in sys.argv[2:]:
    name, _, number = word.partition("#")
    try:
        fuzz.replay(name, int(number))
    except PencilError:
        pass
print("replayed")
"""
FOUND = (
    "shard.parquet#7608",
    "features.npz#418",
    "idx.gz#3292",
    "cub200#164",
    "complete.json#3038",
)  # by the long form, once


def test_inputs_that_once_ended_otherwise_do_so_no_more():
    done = run("-c", REPLAY, str(PROGRAM.parents[1]), *FOUND)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.endswith("replayed\n")


def test_no_reader_ends_in_anything_but_an_error_of_ours():
    done = run(str(PROGRAM), "--quick")
    assert done.returncode == 0, done.stderr[-3000:]
    figures = json.loads(done.stdout)
    assert figures["fuzz_inputs"] > 1500
    assert figures["fuzz_unexpected"] == 0, done.stderr[-3000:]


def test_every_kind_of_unexpected_end_is_counted():
    done = run("-c", FAULTS, str(PROGRAM.parents[1]))
    assert done.stdout == "noticed\n", done.stderr[-3000:]


SEEDS = {
    "json_text": b'{"a": [1, 2], "b": {"c": "d"}}',
    "table_text": b"id,label\na,1\n",
    "toml_text": b"[a]\nb = 1\n",
    "blind": b"abcdefgh",
}


@pytest.mark.parametrize("name", SEEDS)
def test_inputs_are_the_same_each_time_and_differ_from_each_other(imported, name):
    with imported("faults.mutate") as mutate:
        change = getattr(mutate, name)
        inputs = [
            [mutate.mutated([SEEDS[name]], [change], random.Random(f"x {number}")) for number in range(200)]
            for _ in range(2)
        ]
    assert inputs[0] == inputs[1]
    assert len(set(inputs[0])) > 100
