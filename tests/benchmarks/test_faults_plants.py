"""Code planted in files: nothing runs, whatever the command; and the watch does notice code that runs."""

import shutil

import pytest

pytestmark = pytest.mark.slow

EVERY = 23  # of the plants; python benchmarks/trust.py has them all


@pytest.fixture(scope="module")
def plants(imported):
    with imported("faults.plants") as module:
        yield module


def test_no_command_runs_planted_code(plants):
    tried = list(plants.attempts(every=EVERY))
    assert [(name, words) for name, words, found in tried if found] == []
    assert len({name for name, _, _ in tried}) >= 6
    commands = {" ".join(words[: 2 if words[0] in ("bench", "presets") else 1]) for _, words, _ in tried}
    assert commands | {"plan", "presets show"} == set(plants.commands())  # those two read no file


def test_the_watch_notices_code_that_is_trusted(plants, tmp_path, monkeypatch):
    with plants._in_folder(tmp_path) as folder:
        watch = plants.Watch(folder / "trace")
        plants._write_module(folder, watch.trace)
        run = plants._base(folder) / "stopped"
        shutil.rmtree(run / "checkpoints")
        next(
            plant.make
            for plant in plants.run_plants(run.parent, watch.trace)
            if plant.name == "data by planted:run"
        )(run)
        watch.on = True
        plants._call(["resume", str(run)])
        assert watch.found() == []
        plants._call(["resume", str(run), "--trust-code"])
        assert watch.found() == [
            "import planted"
        ]  # it was looked for, but the current folder is not on the path
        monkeypatch.syspath_prepend(str(folder))
        plants._call(["resume", str(run), "--trust-code"])
        assert "the planted code left its trace" in watch.found()
        watch.on = False
