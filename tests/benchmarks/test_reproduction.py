"""The page on reproducing the paper agrees with its data, and its commands are what the command line understands."""

import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pencil.cli.settings import train_config
from pencil.config import RunConfig
from pencil.presets import PRESETS, preset
from pencil.run import train

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks" / "reproduction.py"
PAGE = ROOT / "docs" / "reproduction.md"


@pytest.fixture(scope="module")
def reproduction(imported):
    with imported("reproduction") as module:
        yield module


@pytest.fixture(scope="module")
def cells(reproduction):
    return list(reproduction.cells(reproduction.read_paper()))


def test_the_page_is_what_the_data_says(reproduction):
    assert reproduction.page() == PAGE.read_text(encoding="utf-8")


def test_a_page_that_says_something_else_is_found(tmp_path):
    other = tmp_path / "page.md"
    other.write_text(PAGE.read_text(encoding="utf-8").replace("93.28", "93.29"), encoding="utf-8")
    command = [sys.executable, SCRIPT, "--check", other]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "write it again with --write" in result.stderr


def test_every_cell_of_tables_2_to_6_is_there(cells):
    counts = {number: sum(cell.table == number for cell in cells) for number in range(2, 7)}
    assert counts == {2: 6 * 8, 3: 3 * 5, 4: 5 * 5, 5: 7, 6: 4}


def test_every_preset_of_the_paper_is_pencils_cell_of_some_table(cells):
    pencils = [cell.preset for cell in cells if not cell.flags and not cell.absent]
    assert sorted(pencils) == sorted(name for name in PRESETS if name.startswith("paper:"))


@pytest.mark.parametrize(
    ("table", "row", "column", "best", "last"),
    [
        (2, "5 truncated L_q", "symmetric-80", "–", "29.60 ± 0.51"),
        (2, "6 PENCIL", "symmetric-60", "–", "57.79 ± 3.86"),
        (2, "6 PENCIL", "asymmetric-40", "–", "63.61 ± 0.23"),
        (3, "1 cross entropy", "symmetric-50", "85.15", "53.11"),
        (3, "3 PENCIL", "symmetric-90", "61.21", "60.80"),
        (4, "4 Tanaka et al.", "asymmetric-40", "91.48", "91.55"),
        (4, "5 PENCIL", "asymmetric-50", "80.51", "80.06"),
        (5, "2 to 7 PENCIL", "lambda3000-alpha0", "–", "82.64"),
        (5, "2 to 7 PENCIL", "lambda3000-alpha0.1", "–", "82.22"),
        (6, "4 PENCIL", "", "73.49", "–"),
    ],
)
def test_the_papers_figures_were_copied_rightly(cells, table, row, column, best, last):
    (cell,) = [each for each in cells if (each.table, each.method, each.column) == (table, row, column)]
    assert (cell.best, cell.last) == (best, last)


def test_the_page_says_not_run_wherever_no_result_was_recorded(cells, reproduction):
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    recorded = {(each.preset, each.flags) for each in reproduction.recorded()}
    run_cells = sum((cell.preset, cell.flags) in recorded for cell in cells)
    assert sum(line.endswith("| not run |") for line in lines) >= len(cells) - run_cells


def test_a_command_on_the_page_gives_the_settings_that_a_recorded_run_must_have(
    cells, reproduction, tmp_path
):
    for cell in cells:
        if cell.absent:
            continue
        words = shlex.split(reproduction.command(cell, str(tmp_path)))[3:]
        flags = dict(zip(words[::2], words[1::2], strict=True))
        config = train_config(
            str(tmp_path),
            None,
            flags["--preset"],
            method=flags.get("--method"),
            settings=tuple(value for key, value in flags.items() if key == "--set"),
        )
        assert config == reproduction.config_of(cell, str(tmp_path))


def test_only_a_run_with_the_settings_of_a_cell_is_recorded(cells, reproduction, tmp_path):
    cell = next(each for each in cells if each.preset == "paper:cifar10-symmetric-50" and not each.flags)
    config = reproduction.config_of(cell, "x")
    free = config.model_copy(update={"seed": 3, "train": config.train.model_copy(update={"workers": 2})})
    other = config.model_copy(update={"train": config.train.model_copy(update={"batch_size": 64})})
    assert [reproduction.is_of(each, cell) for each in (config, free, other)] == [True, True, False]


def test_a_recorded_run_shows_in_its_cell(reproduction):
    runs = [
        reproduction.Recorded("paper:clothing1m", (), seed, best, 72.0 + seed, None, "one GPU")
        for seed, best in ((0, 73.0), (1, 74.0))
    ]
    assert reproduction.measured("paper:clothing1m", (), runs) == (
        "best 73.50 ± 0.71, last 72.50 ± 0.71, 2 seeds, one GPU"
    )
    assert reproduction.measured("paper:clothing1m", ("--method", "forward"), runs) == "not run"


def test_a_run_of_other_settings_is_refused(reproduction, blobs, tmp_path):
    values, labels = blobs.train.inputs.values.numpy(), blobs.train.labels.hard.numpy()
    np.savez(tmp_path / "x.npz", X=values, y=labels, X_test=values, y_test=labels)
    table = preset("features", str(tmp_path / "x.npz")).table()
    for phase, epochs in zip(table["phases"], (1, 6, 1), strict=True):
        phase["epochs"] = epochs
    train(RunConfig.of(table), tmp_path / "run")
    with pytest.raises(SystemExit, match="not those of any command on the page"):
        reproduction.record(tmp_path / "run", "here")
