"""Code planted in files: nothing runs, whatever the command; and the watch does notice code that runs.

The watch is an audit hook, which Python cannot remove again, so each test has a process of its own. Left in a process
that measures coverage, a hook lets two threads that start together both set their trace function, and in Python 3.11
one of them ends there.
"""

import multiprocessing
import shutil
import sys
from concurrent.futures import ProcessPoolExecutor

import pytest

pytestmark = pytest.mark.slow

EVERY, FIRSTS = 22, (0, 11)  # of the plants, in two halves; python benchmarks/trust.py has them all


@pytest.fixture
def elsewhere(imported):
    """Calls a function of this module in a new process, which imports from where this one does."""
    with imported("faults.plants"), ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        yield lambda function, *args: process.submit(function, *args).result()


@pytest.mark.parametrize("first", FIRSTS)
def test_no_command_runs_planted_code(elsewhere, first):
    tried, wanted = elsewhere(_attempts, first)
    assert [(name, words) for name, words, found in tried if found] == []
    assert len({name for name, _, _ in tried}) >= 6
    commands = {" ".join(words[: 2 if words[0] in ("bench", "presets") else 1]) for _, words, _ in tried}
    assert commands | {"plan", "presets show"} == wanted  # those two read no file


def _attempts(first):
    from faults import plants

    return list(plants.attempts(EVERY, first)), set(plants.commands())


def test_the_watch_notices_code_that_is_trusted(elsewhere, tmp_path):
    refused, not_on_the_path, trusted = elsewhere(_noticed, tmp_path)
    assert refused == []
    assert not_on_the_path == [
        "import planted"
    ]  # it was looked for, but the current folder is not on the path
    assert "the planted code left its trace" in trusted


def _noticed(folder):
    from faults import plants

    with plants._in_folder(folder) as folder:
        watch = plants.Watch(folder / "trace")
        plants._write_module(folder, watch.trace)
        run = plants._base(folder) / "stopped"
        shutil.rmtree(run / "checkpoints")
        kinds = {plant.name: plant for plant in plants.run_plants(run.parent, watch.trace)}
        kinds["data by planted:run"].make(run)
        watch.on = True
        plants._call(["resume", str(run)])
        refused = watch.found()
        plants._call(["resume", str(run), "--trust-code"])
        not_on_the_path = watch.found()
        sys.path.insert(0, str(folder))
        plants._call(["resume", str(run), "--trust-code"])
        return refused, not_on_the_path, watch.found()
