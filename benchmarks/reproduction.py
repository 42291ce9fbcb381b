"""The page on reproducing the paper: every cell of its tables, our command, what it would take, what was measured.

    python benchmarks/reproduction.py --write docs/reproduction.md
    python benchmarks/reproduction.py --check docs/reproduction.md
    python benchmarks/reproduction.py --record RUN --where "one A100"      # adds a run of one of the commands

The paper's figures come from reproduction.toml beside this file, ours from results/, written by the benchmarks and by
``--record``. It takes a finished run with the settings of a command on the page, and a run of a command at a shorter
schedule, finished or not: fewer epochs, and where needed another ``method.label_rate`` and ``train.precision``. The
latter is listed in a table of its own and does not count as run; recording it again later replaces its line. A run with
other settings is refused. For instance, at a quarter of the epochs of one experiment (four times the label rate moves
labels as far in all), then both lines again when more epochs are done:

    python benchmarks/reproduction.py --record runs/pencil --where "one thread of a Xeon"
    python benchmarks/reproduction.py --record runs/cross_entropy --where "one thread of a Xeon"
    python benchmarks/reproduction.py --write docs/reproduction.md
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import reproduction_shorter as shorter

from pencil.algorithm import total_epochs
from pencil.config import RunConfig
from pencil.engine import read_json_lines
from pencil.presets import preset
from pencil.run import RunDirectory

HERE = Path(__file__).parent
PAPER = HERE / "reproduction.toml"
RESULTS = HERE / "results"
RECORDED = RESULTS / "reproduction.jsonl"
NOT_RUN = "not run"
FREE = {"seed", "store", "checkpoint"}
FREE_TRAIN = {"device", "parallel", "accumulate", "compile", "workers", "tensorboard"}


@dataclass(frozen=True)
class Cell:
    """One experiment: the paper's figures and our command, or why there is none."""

    table: int
    data: str
    method: str
    column: str
    flags: tuple[str, ...]
    best: str
    last: str
    trials: int
    absent: str = ""

    @property
    def preset(self) -> str:
        """The settings it starts from."""
        return f"paper:{self.data}-{self.column}" if self.column else f"paper:{self.data}"


@dataclass(frozen=True)
class Recorded:
    """What a run of a command ended with, in percent."""

    preset: str
    flags: tuple[str, ...]
    seed: int
    best: float | None
    last: float
    labels_correct: float | None
    where: str


def main() -> None:
    """Write or check the page, or add a run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", type=Path, metavar="PAGE")
    action.add_argument("--check", type=Path, metavar="PAGE")
    action.add_argument("--record", type=Path, metavar="RUN")
    parser.add_argument("--where", help="the machine a recorded run ran on")
    arguments = parser.parse_args()
    if arguments.record:
        if not arguments.where:
            parser.error("--record needs --where: the machine it ran on")
        record(arguments.record, arguments.where)
    elif arguments.write:
        arguments.write.write_text(page(), encoding="utf-8")
    elif arguments.check.read_text(encoding="utf-8") != page():
        sys.exit(f"{arguments.check} is not what the data says; write it again with --write")


# What the paper has


def read_paper() -> dict[str, Any]:
    """The paper's figures and our assumptions."""
    return tomllib.loads(PAPER.read_text(encoding="utf-8"))


def cells(paper: Mapping[str, Any]) -> Iterator[Cell]:
    """Every cell of Tables 2 to 6."""
    for table in paper["tables"]:
        for row in table["rows"]:
            columns = row.get("columns", table["columns"])
            best, last = (row.get(name, ["–"] * len(columns)) for name in ("best", "last"))
            for column, best_one, last_one in zip(columns, best, last, strict=True):
                yield Cell(
                    table=table["number"],
                    data=table["data"],
                    method=row["method"],
                    column=column,
                    flags=tuple(row.get("flags", ())),
                    best=best_one,
                    last=last_one,
                    trials=table["trials"],
                    absent=row.get("absent", ""),
                )


def gpu_hours(name: str, assumed: Mapping[str, Any]) -> float:
    """Hours of one run, by assumed speed: epochs × (trained + evaluated / 3) images."""
    images: float = assumed["train"] + assumed["evaluated"] / 3
    speed: float = assumed["images_per_second"]
    return total_epochs(preset(name, "").phases) * images / speed / 3600


# What we have measured


def config_of(cell: Cell, path: str) -> RunConfig:
    """The settings of the cell's command for the data at ``path``."""
    table = preset(cell.preset, path).table()
    words = iter(cell.flags)
    for word in words:
        value = next(words)
        if word == "--method":
            table["method"] = {"name": value}
        else:
            key, _, setting = value.removeprefix("method.").partition("=")
            table["method"][key] = float(setting) if setting[0].isdigit() else setting
    return RunConfig.of(table)


def record(run: Path, where: str) -> None:
    """Add a finished run of one of the page's commands, or a run of one at a shorter schedule."""
    directory = RunDirectory.open(run)
    config = directory.config
    cell = next((each for each in cells(read_paper()) if is_of(config, each)), None)
    if cell is None:
        record_shorter(directory, where)
        return
    directory.require_finished()
    summary = directory.summary
    best, last = summary.get("best"), summary["last"]
    line = Recorded(
        cell.preset,
        cell.flags,
        config.seed,
        None if best is None else round(100 * best["test_accuracy"], 2),
        round(100 * last["test_accuracy"], 2),
        None if "labels_correct" not in last else round(100 * last["labels_correct"], 2),
        where,
    )
    with RECORDED.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(line)) + "\n")


def record_shorter(directory: RunDirectory, where: str) -> None:
    """Add a run of a command with fewer epochs, or write it anew; refuse any other."""
    config = directory.config
    cell, papers = shortened_cell(config, directory.path)
    line = shorter.Shorter(
        preset=cell.preset,
        flags=cell.flags,
        seed=config.seed,
        settings=shorter.differing(fixed(config), papers),
        where=where,
        **shorter.measured(directory),
    )
    shorter.add(line)
    print(f"recorded at a shorter schedule: epoch {line.done} of {line.planned} of {cell.preset}")


def shortened_cell(config: RunConfig, run: Path) -> tuple[Cell, dict[str, Any]]:
    """The one cell of which the run is a shorter schedule, with the settings of its command."""
    ours = fixed(config)
    commands = [
        (cell, fixed(config_of(cell, config.data.path))) for cell in cells(read_paper()) if not cell.absent
    ]
    fitting = [(cell, papers) for cell, papers in commands if not shorter.refused(ours, papers)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        names = ", ".join(cell.preset for cell, _ in fitting)
        sys.exit(f"{run}: its settings are a shorter schedule of several commands on the page: {names}")
    nearest, papers = min(commands, key=lambda command: len(shorter.refused(ours, command[1])))
    sys.exit(
        f"{run}: its settings are not those of any command on the page, nor a shorter schedule of one; "
        f"{nearest.preset}, the nearest, differs in {', '.join(shorter.refused(ours, papers))}"
    )


def is_of(config: RunConfig, cell: Cell) -> bool:
    """Whether the settings are the cell's, but for what may differ: seed, store and how the machine is used."""
    return not cell.absent and fixed(config) == fixed(config_of(cell, config.data.path))


def fixed(config: RunConfig) -> dict[str, Any]:
    """The settings that decide what an experiment is."""
    table = {name: value for name, value in config.table().items() if name not in FREE}
    table["train"] = {name: value for name, value in table["train"].items() if name not in FREE_TRAIN}
    return table


def recorded() -> list[Recorded]:
    """All runs that were recorded."""
    return [Recorded(**{**line, "flags": tuple(line["flags"])}) for line in read_json_lines(RECORDED)]


def measured(name: str, flags: tuple[str, ...], runs: list[Recorded]) -> str:
    """Best and last of the runs of one command, with their number and machine."""
    mine = [run for run in runs if (run.preset, run.flags) == (name, flags)]
    if not mine:
        return NOT_RUN
    best = [run.best for run in mine if run.best is not None]
    parts = [f"best {spread(best)}"] if best else []
    parts += [f"last {spread([run.last for run in mine])}", f"{len(mine)} seed{'s' * (len(mine) > 1)}"]
    return ", ".join([*parts, *sorted({run.where for run in mine})])


def spread(numbers: list[float]) -> str:
    """Mean, and the standard deviation of several."""
    deviation = f" ± {statistics.stdev(numbers):.2f}" if len(numbers) > 1 else ""
    return f"{statistics.mean(numbers):.2f}{deviation}"


# The page


def page() -> str:
    """All of it."""
    paper, runs = read_paper(), recorded()
    run_cells = sum(measured(cell.preset, cell.flags, runs) != NOT_RUN for cell in cells(paper))
    total = sum(1 for _ in cells(paper))
    fewer = shorter.recorded()
    beside = SHORTER.format(count=len(fewer)) if fewer else ""
    introduction = INTRODUCTION.format(run=run_cells, total=total, beside=beside)
    parts = [introduction, other_protocols(), *shorter_section(paper, fewer), HOW, assumptions(paper)]
    parts += [table_section(table, paper, runs) for table in paper["tables"]]
    parts += [figures_section(paper, runs)]
    return "\n".join(parts)


INTRODUCTION = """# Reproducing the paper

**Of the {total} results in the paper, {run} have been run here.**{beside} The experiments need a GPU, and the machine
behind these pages has none; the images of CIFAR-100, CUB-200 and Clothing1M were not available there either. Below are
first our own measurements on smaller problems, then every figure of Tables 2 to 6 and Figures 2 and 3 of Yi & Wu (CVPR
2019) with the command that runs the experiment and an estimate of its cost. A number is a measurement of ours only if
it says so.
"""

SHORTER = """ Runs [at a shorter schedule](#the-papers-experiments-at-a-shorter-schedule)
do not count; so far {count}, marked if not finished."""

HOW = """## How to run the paper's experiments

Each trial is one command with `--seed 0`, `--seed 1`, ... *best* is the test accuracy of the epoch that is best on
the held-out rows, *last* that of the last epoch; both are in a run's `summary.json`. CIFAR10, CIFAR100, CUB_200_2011
and CLOTHING1M are the folders of the data sets as published. `pencil presets show NAME` prints a preset's settings
and its choices: between paper and program, or where the paper does not say. For other methods than its own the paper
does not give learning rates; our commands keep those of the preset.

`python benchmarks/reproduction.py --write docs/reproduction.md` makes this page from
[reproduction.toml](../benchmarks/reproduction.toml) and the files in [results](../benchmarks/results). `--record RUN
--where MACHINE` adds a finished run to them, or a run at a shorter schedule, finished or not, in a table of its own. It
refuses a run with other settings than those on this page.
"""


def shorter_section(paper: Mapping[str, Any], runs: list[shorter.Shorter]) -> Iterator[str]:
    """The runs with fewer epochs than the paper's, and their commands; nothing where there are none."""
    if not runs:
        return
    by_command = {(cell.preset, cell.flags): cell for cell in cells(paper)}
    lines = [shorter.HEAD, f"| {' | '.join(shorter.COLUMNS)} |", "|---" * len(shorter.COLUMNS) + "|"]
    commands = []
    for run in runs:
        cell = by_command[run.preset, run.flags]
        name, papers = cell.method.partition(" ")[2], fixed(config_of(cell, ""))
        lines.append(shorter.table_line(run, papers, name, (cell.best, cell.last)))
        commands.append(shorter.command_line(run, paper["assumed"][cell.data]["path"]))
    block = ["", "<!-- not run: takes hours -->", "```sh", *dict.fromkeys(commands), "```", ""]
    yield "\n".join([*lines, *block])


def assumptions(paper: Mapping[str, Any]) -> str:
    """How the hours are calculated."""
    lines = [
        "## GPU hours: an estimate",
        "",
        "Calculated from assumed speeds of one GPU of the V100 class in mixed precision. The speeds were not measured,",
        "and images must be decoded that fast too. An evaluated image counts as a third of a trained one.",
        "",
        "| data | images per second, assumed | trained per epoch | evaluated per epoch | epochs | hours per run |",
        "|---|---|---|---|---|---|",
    ]
    for data, assumed in paper["assumed"].items():
        name = next(cell.preset for cell in cells(paper) if cell.data == data)
        epochs = total_epochs(preset(name, "").phases)
        speed, trained, evaluated = (assumed[key] for key in ("images_per_second", "train", "evaluated"))
        hours = gpu_hours(name, assumed)
        lines.append(f"| {data} | {speed:,} | {trained:,} | {evaluated:,} | {epochs} | {hours:.1f} |")
    return "\n".join([*lines, ""])


def table_section(table: Mapping[str, Any], paper: Mapping[str, Any], runs: list[Recorded]) -> str:
    """One of the paper's tables, a line per cell."""
    found = [cell for cell in cells(paper) if cell.table == table["number"]]
    trials = f", {table['trials']} trials" if table["trials"] > 1 else ""
    head = [
        f"## Table {table['number']}: {table['title']}{trials}",
        "",
        table["note"].strip(),
        "",
        "| row | experiment | paper, best | paper, last | command | GPU hours of all trials, estimate | measured |",
        "|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*head, *(cell_line(cell, paper["assumed"][cell.data], runs) for cell in found), ""])


def cell_line(cell: Cell, assumed: Mapping[str, Any], runs: list[Recorded]) -> str:
    """The cell as a line of Markdown."""
    hours = f"{cell.trials * gpu_hours(cell.preset, assumed):.1f}"
    does = [cell.absent, "–"] if cell.absent else [f"`{command(cell, assumed['path'])}`", hours]
    result = NOT_RUN if cell.absent else measured(cell.preset, cell.flags, runs)
    experiment = cell.column.replace("-", " ").replace("lambda", "λ ").replace("alpha", "α ") or "–"
    return f"| {' | '.join([cell.method, experiment, cell.best, cell.last, *does, result])} |"


def command(cell: Cell, path: str) -> str:
    """What to type."""
    return " ".join(["pencil train", path, "--preset", cell.preset, *cell.flags])


def figures_section(paper: Mapping[str, Any], runs: list[Recorded]) -> str:
    """Figures 2 and 3: correct labels by epoch."""
    lines = [
        "## Figures 2 and 3: correct labels during PENCIL learning, CIFAR-10",
        "",
        "`labels_correct` of every epoch is in a run's `metrics.jsonl`, as a share of the 45,000 training rows.",
        "",
        "| figure | paper | command | measured: correct labels at the end |",
        "|---|---|---|---|",
    ]
    for figure in paper["figures"]:
        mine = [run.labels_correct for run in runs if (run.preset, run.flags) == (figure["preset"], ())]
        known = [value for value in mine if value is not None]
        result = f"{spread(known)} %, {len(known)} seeds" if known else NOT_RUN
        does = f"`pencil train {paper['assumed']['cifar10']['path']} --preset {figure['preset']}`"
        lines.append(f"| {figure['number']} | {figure['paper']} | {does} | {result} |")
    return "\n".join([*lines, ""])


def other_protocols() -> str:
    """What was measured on other data or with other networks: no cell of the paper's."""
    lines = [
        "## Measured here, on smaller problems",
        "",
        "These results are ours, and **none of them is in the paper's tables**: inputs, networks and schedules differ.",
        "They show what the method does if a run takes seconds or minutes of a CPU. Machine, settings and commands:",
        "[benchmarks.md](benchmarks.md).",
        "",
        "| what | not the paper's because | noise | cross entropy, last | PENCIL, last "
        "| right labels, given → PENCIL's | seeds |",
        "|---|---|---|---|---|---|---|",
        *cub_lines(RESULTS / "cub_features.jsonl"),
        *cifar_lines(RESULTS / "cifar10_images.jsonl"),
    ]
    compared = (
        "Printed against reference compatibility loss, with every flip counted: [method.md](method.md)."
    )
    return "\n".join([*lines, "", compared, ""])


def cub_lines(path: Path) -> Iterator[str]:
    """Means over the seeds of the benchmark on CUB-200 features."""
    results = read_json_lines(path)
    for noise in dict.fromkeys(line["noise"] for line in results):
        by = {
            method: [line for line in results if (line["noise"], line["method"]) == (noise, method)]
            for method in ("cross_entropy", "pencil")
        }
        accuracy = [f"{statistics.mean(line['test_last'] for line in group):.1f}" for group in by.values()]
        before, after = (
            statistics.mean(line[f"labels_{when}"] for line in by["pencil"]) for when in ("before", "after")
        )
        name = "none" if noise == "clean" else f"{noise.replace('_', ' ')} %"
        yield (
            f"| CUB-200, features | linear head on frozen features; noise added | {name} | {' | '.join(accuracy)} | "
            f"{before:.1f} → {after:.1f} % | {len(by['pencil'])} |"
        )


def cifar_lines(path: Path) -> Iterator[str]:
    """The last epochs of PENCIL's runs on CIFAR-10 images, beside cross entropy where that was run."""
    shown = [run for run in read_json_lines(path) if run["variant"] == "default"]
    runs = {(run["noise"], run["method"]): run["epochs"] for run in shown}
    for noise, method in runs:
        if method == "pencil":
            epochs, plain = runs[noise, method], runs.get((noise, "cross_entropy"))
            accuracy = [f"{100 * each[-1]['test_accuracy']:.1f}" if each else "–" for each in (plain, epochs)]
            before, after = (100 * epochs[place]["labels_correct"] for place in (0, -1))
            yield (
                f"| CIFAR-10, images | PreAct ResNet-8, {len(epochs)} epochs instead of 320 | "
                f"{noise.replace('_', ' ')} % | {' | '.join(accuracy)} | {before:.1f} → {after:.1f} % | 1 |"
            )


if __name__ == "__main__":
    main()
