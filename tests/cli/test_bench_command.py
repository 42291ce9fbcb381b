"""``pencil bench``: a grid and tables from the command line."""

import json
import shutil

import pytest

from pencil.bench.workers import Result
from pencil.cli import bench as module
from pencil.errors import ConfigError, MissingExtraError

pytestmark = pytest.mark.slow

GRID = """
[base]
preset = "features"
data.path = "POINTS"
phases = [{ name = "correction", epochs = 2, learning_rate = 0.02 }]
[[data]]
name = "points"
[[noise]]
name = "symmetric_30"
data.noise = { kind = "symmetric", rate = 0.3 }
[[noise]]
name = "lost"
data.noise = { kind = "file", path = "no-such-file.npy" }
[[method]]
name = "cross_entropy"
"""


@pytest.fixture(scope="module")
def grid(points, tmp_path_factory):
    path = tmp_path_factory.mktemp("grids") / "tiny.toml"
    path.write_text(GRID.replace("POINTS", str(points)))
    return path


@pytest.fixture(scope="module")
def out(grid, pencil, tmp_path_factory):
    """One cell with a result, one that failed."""
    folder = tmp_path_factory.mktemp("bench") / "out"
    result = pencil("bench", grid, "--out", folder, "--jobs", 1, "--json")
    assert result.exit_code == 1
    told = json.loads(result.stdout.splitlines()[-1])
    assert (told["results"], told["failed"], told["missing"]) == (1, 1, 0)
    assert "no-such-file.npy" in told["errors"]["points lost cross_entropy seed 0"]
    assert "1/2  points symmetric_30 cross_entropy seed 0  test " in result.stderr
    assert "2/2  points lost cross_entropy seed 0  failed: " in result.stderr
    return folder


def test_a_finished_cell_is_skipped_and_the_exit_code_is_0(out, grid, pencil):
    result = pencil("bench", "--only", "noise=symmetric_30", grid, "--out", out, "--quiet")
    assert result.exit_code == 0
    words = f"bench {out} results 1 skipped 1 failed 0 missing 0 outdated 0"
    assert " ".join(result.stdout.split()) == words
    assert result.stderr == f"next: pencil bench table {out}\n"


def test_results_of_other_settings_are_counted(out, grid, pencil, tmp_path):
    copy, changed = tmp_path / "out", tmp_path / "changed.toml"
    shutil.copytree(out, copy)
    changed.write_text(grid.read_text().replace("rate = 0.3", "rate = 0.4"))
    options = ("--only", "noise=lost", "--out", copy, "--jobs", 1, "--quiet", "--json")
    with pytest.warns(UserWarning, match="1 results are left out"):
        result = pencil("bench", changed, *options)
    told = json.loads(result.stdout.splitlines()[-1])
    assert (told["results"], told["failed"], told["outdated"]) == (0, 1, 1)


def test_tables_come_from_the_folder_or_its_file(out, pencil):
    shown = pencil("bench", "table", out, "--metric", "forward_passes")
    assert shown.exit_code == 0
    assert shown.stdout.splitlines()[-1] == "| cross_entropy | 180 |"
    latex = pencil("bench", "table", out / "results.jsonl", "--format", "latex", "--against", "cross_entropy")
    assert latex.stdout.count(r"\begin{tabular}") == 2


def test_without_pyarrow_the_rest_is_there(out, grid, pencil, monkeypatch):
    def missing(*_):
        raise MissingExtraError("pyarrow is needed to write Parquet")

    monkeypatch.setattr("pencil.bench.write_parquet", missing)
    result = pencil("bench", grid, "--only", "noise=symmetric_30", "--out", out, "--quiet")
    assert result.exit_code == 0
    assert "no results.parquet: pyarrow is needed" in result.stderr


def test_a_mistake_leaves_no_folder(grid, pencil, tmp_path):
    result = pencil("bench", grid, "--out", tmp_path / "out", "--only", "method=pencil")
    assert isinstance(result.exception, ConfigError)
    assert not (tmp_path / "out").exists()


def test_help_tells_both_ways(pencil):
    assert "pencil bench table FOLDER" in pencil("bench", "--help").stdout
    assert "--only AXIS=NAMES" in pencil("bench", "run", "--help").stdout


def test_the_bar_keeps_failures_and_the_last_run(monkeypatch):
    from types import SimpleNamespace

    bar = module._Bar()
    told = []
    monkeypatch.setattr(bar._progress.console, "print", lambda *text, **_: told.extend(text))
    bar(SimpleNamespace(cells=["a cell"], result=Result(error="no luck"), done=1, total=2))
    bar(SimpleNamespace(cells=["b cell"], result=Result({"test_last": 0.5}), done=2, total=2))
    bar.close()
    task = bar._progress.tasks[0]
    assert "a cell  failed: no luck" in told
    assert (task.completed, task.total, task.fields["last"]) == (2, 2, "b cell  test 50.0 %")


@pytest.mark.parametrize(("text", "seeds"), [("5", 5), ("5,", [5]), ("5,6,7", [5, 6, 7])])
def test_seeds_are_how_many_or_with_a_comma_themselves(text, seeds):
    (option,) = [each for each in module.bench.commands["run"].params if each.name == "seeds"]
    assert option.type.convert(text, option, None) == seeds


@pytest.mark.parametrize("seeds", ["five", "1,two"])
def test_seeds_that_are_no_numbers_are_named(pencil, tmp_path, seeds):
    refused = pencil("bench", "run", tmp_path / "grid.toml", "--seeds", seeds)
    assert refused.exit_code == 2
    assert f"{seeds!r} is not a number; write 3, or seeds such as 5,6,7" in refused.output
