"""The page on reproducing the paper agrees with its data, and its commands are what the command line understands."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pencil.config import RunConfig
from pencil.configure import train_config
from pencil.errors import RunError
from pencil.presets import PRESETS, preset
from pencil.run import RunDirectory, train

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks" / "reproduction.py"
PAGE = ROOT / "docs" / "reproduction.md"


@pytest.fixture(scope="module")
def reproduction(imported):
    with imported("reproduction") as module:
        yield module


@pytest.fixture(scope="module")
def paper(reproduction, imported):
    with imported("reproduction_cells") as module:
        yield module


@pytest.fixture(scope="module")
def cells(paper):
    return list(paper.cells(paper.read_paper()))


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


def test_the_page_says_not_run_wherever_no_result_was_recorded(cells, paper):
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    recorded = {(each.preset, each.flags) for each in paper.recorded()}
    run_cells = sum((cell.preset, cell.flags) in recorded for cell in cells)
    assert sum(line.endswith("| not run |") for line in lines) >= len(cells) - run_cells


def test_a_command_on_the_page_gives_the_settings_that_a_recorded_run_must_have(cells, paper, tmp_path):
    for cell in cells:
        if cell.absent:
            continue
        words = shlex.split(paper.command(cell, str(tmp_path)))[3:]
        flags = dict(zip(words[::2], words[1::2], strict=True))
        config = train_config(
            str(tmp_path),
            None,
            flags["--preset"],
            method=flags.get("--method"),
            settings=tuple(value for key, value in flags.items() if key == "--set"),
        )
        assert config == paper.config_of(cell, str(tmp_path))


def test_only_a_run_with_the_settings_of_a_cell_is_recorded(cells, paper):
    cell = next(each for each in cells if each.preset == "paper:cifar10-symmetric-50" and not each.flags)
    config = paper.config_of(cell, "x")
    free = config.model_copy(update={"seed": 3, "train": config.train.model_copy(update={"workers": 2})})
    other = config.model_copy(update={"train": config.train.model_copy(update={"batch_size": 64})})
    assert [paper.is_of(each, cell) for each in (config, free, other)] == [True, True, False]


def test_a_recorded_run_shows_in_its_cell(paper, imported):
    runs = [
        paper.Recorded("paper:clothing1m", (), seed, best, 72.0 + seed, None, "one GPU")
        for seed, best in ((0, 73.0), (1, 74.0))
    ]
    with imported("reproduction_page") as page:
        shown = page.measured("paper:clothing1m", (), runs)
        other = page.measured("paper:clothing1m", ("--method", "forward"), runs)
    assert shown == "best 73.50 ± 0.71, last 72.50 ± 0.71, 2 seeds, one GPU"
    assert other == "not run"


def test_a_run_of_other_settings_is_refused(reproduction, blobs, tmp_path):
    values, labels = blobs.train.inputs.values.numpy(), blobs.train.labels.hard.numpy()
    np.savez(tmp_path / "x.npz", X=values, y=labels, X_test=values, y_test=labels)
    table = preset("features", str(tmp_path / "x.npz")).table()
    for phase, epochs in zip(table["phases"], (1, 6, 1), strict=True):
        phase["epochs"] = epochs
    train(RunConfig.of(table), tmp_path / "run")
    with pytest.raises(SystemExit, match="not those of any command on the page"):
        reproduction.record(tmp_path / "run", "here")


# Shorter schedules


QUARTER = (
    {"name": "backbone", "epochs": 18, "learning_rate": 0.04},
    {"name": "correction", "epochs": 32, "learning_rate": 0.04},
    {
        "name": "finetune",
        "epochs": 30,
        "learning_rate": {"kind": "piecewise", "values": [0.2, 0.02, 0.002], "boundaries": [10.0, 20.0]},
    },
)


def shortened(changes, method=None, phases=QUARTER):
    """The settings of an experiment at a quarter of its epochs, with changes by section."""
    table = preset("paper:cifar10-symmetric-50", "CIFAR10").table()
    table["phases"] = [dict(phase) for phase in phases]
    table["method"] = method or table["method"] | {"label_rate": 1.25}
    for section, values in changes.items():
        table[section] = table[section] | values
    return RunConfig.of(table)


def run_of(config, folder, epochs):
    """A run folder with metrics of some epochs: test accuracies 50, 51, ... %; the second is best on held-out rows."""
    directory = RunDirectory.create(folder, config)
    for number in range(1, epochs + 1):
        line = {"step": number, "epoch": number, "labels_changed": 0, "seconds": 1.0, "labels_correct": 0.55}
        accuracies = {
            "test_accuracy": 0.49 + number / 100,
            "validation_accuracy": 0.4 - abs(number - 2) / 100,
        }
        with directory.metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line | accuracies) + "\n")
    return directory


@pytest.fixture
def notebook(reproduction, paper, tmp_path, monkeypatch):
    """Records of this test only."""
    monkeypatch.setattr(reproduction.shorter, "RECORDED", tmp_path / "shorter.jsonl")
    monkeypatch.setattr(paper, "RECORDED", tmp_path / "paper.jsonl")
    return reproduction


def section_of(page):
    return page.partition("at a shorter schedule\n")[2].partition("\n## ")[0]


def test_an_unfinished_run_at_a_shorter_schedule_is_shown_as_such_and_does_not_count(notebook, tmp_path):
    run_of(shortened({"train": {"precision": "fp32"}}), tmp_path / "run", epochs=7)
    notebook.record(tmp_path / "run", "one thread")
    page = notebook.page()
    (line,) = [line for line in section_of(page).splitlines() if line.startswith("| cifar10")]
    assert line == (
        "| cifar10-symmetric-50, PENCIL | 90.29 | 90.36 | 51.00 | 56.00 | 55.0 → 55.0 % | "
        "**epoch 7 of 80, not finished** | 18 + 32 + 30 epochs instead of 70 + 130 + 120; "
        "`method.label_rate` 1.25 instead of 0.3125; `train.precision` fp32 instead of bf16 | 0, one thread |"
    )
    assert "**Run here as in the paper: 0 of 99 results.**" in page
    assert "#the-papers-experiments-at-a-shorter-schedule): 1.\nThey do not count as reproduced." in page
    (cell,) = [each for each in page.splitlines() if "| 90.29 | 90.36 | `pencil train" in each]
    assert cell.endswith("| not run |")


def test_recording_a_run_again_replaces_its_line(notebook, tmp_path):
    plain = shortened({}, method={"name": "cross_entropy"})
    for number, epochs in enumerate((3, 80)):
        run_of(plain, tmp_path / str(number), epochs)
    run_of(shortened({}), tmp_path / "pencil", epochs=2)
    notebook.record(tmp_path / "0", "one thread")
    notebook.record(tmp_path / "pencil", "one thread")
    (tmp_path / "1" / "summary.json").write_text("{}", encoding="utf-8")
    notebook.record(tmp_path / "1", "two threads")
    runs = notebook.shorter.recorded()
    assert [(run.flags, run.done, run.finished) for run in runs] == [
        ((), 2, False),
        (("--method", "cross_entropy"), 80, True),
    ]
    assert "| 85.15 | 53.11 | 51.00 | 129.00 | 55.0 → 55.0 % | 80 of 80 |" in section_of(notebook.page())


@pytest.mark.parametrize("method", [None, {"name": "cross_entropy"}])
def test_the_command_of_a_shorter_schedule_gives_the_settings_of_the_run(
    notebook, tmp_path, monkeypatch, method
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "CIFAR10").mkdir()
    config = shortened({"train": {"precision": "fp32"}}, method)
    run_of(config, tmp_path / "run", epochs=1)
    notebook.record(tmp_path / "run", "here")
    (block,) = re.findall("```sh\n(.*)\n```", section_of(notebook.page()))
    words = shlex.split(block)[3:]
    pairs = list(zip(words[::2], words[1::2], strict=True))
    settings = tuple(value for flag, value in pairs if flag == "--set")
    flags = dict(pairs)
    again = train_config("CIFAR10", None, flags["--preset"], method=flags.get("--method"), settings=settings)
    assert notebook.fixed(again) == notebook.fixed(config)


def longer(number, epochs):
    return [phase | {"epochs": epochs} if place == number else phase for place, phase in enumerate(QUARTER)]


@pytest.mark.parametrize(
    ("config", "named"),
    [
        (shortened({"train": {"batch_size": 64}}), "train.batch_size"),
        (shortened({"method": {"pull": 0.5}}), "method.pull"),
        (shortened({"data": {"validation": 0.2}}), "data.validation"),
        (shortened({}, phases=longer(0, 71)), "phases"),
        (shortened({}, phases=longer(1, 0)), "phases"),
        (shortened({}, phases=[*QUARTER[:1], QUARTER[1] | {"learning_rate": 0.02}, QUARTER[2]]), "phases"),
        (shortened({}, phases=longer(2, 40)), "phases"),
    ],
    ids=["batch", "pull", "held out", "a longer phase", "no correction", "another rate", "other boundaries"],
)
def test_a_shorter_schedule_with_other_settings_is_refused(notebook, tmp_path, config, named):
    run_of(config, tmp_path / "run", epochs=1)
    with pytest.raises(SystemExit, match=f"paper:cifar10-symmetric-50, the nearest, differs in {named}$"):
        notebook.record(tmp_path / "run", "here")
    assert not notebook.shorter.RECORDED.exists()


def test_an_unfinished_run_of_the_papers_own_schedule_is_refused(notebook, tmp_path):
    run_of(preset("paper:cifar10-symmetric-50", "CIFAR10"), tmp_path / "run", epochs=319)
    with pytest.raises(RunError, match="is not finished"):
        notebook.record(tmp_path / "run", "here")


def test_a_run_without_an_epoch_is_refused(notebook, tmp_path):
    run_of(shortened({}), tmp_path / "run", epochs=0)
    with pytest.raises(SystemExit, match="no epoch is done yet"):
        notebook.record(tmp_path / "run", "here")


def test_a_run_that_ended_early_says_so(reproduction):
    run = reproduction.shorter.Shorter(
        "paper:cifar10-symmetric-50", (), 0, {"phases": QUARTER}, 50, True, None, 60.0, None, "here"
    )
    assert reproduction.shorter.progress(run) == "50 of 80, ended early"
