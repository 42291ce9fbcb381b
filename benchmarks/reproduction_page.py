"""The page on reproducing the paper, as Markdown. ``reproduction.py`` writes it."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import reproduction_shorter as shorter
from reproduction_cells import RESULTS, Cell, Recorded, cells, command, config_of, fixed, read_paper, recorded

from pencil.algorithm import total_epochs
from pencil.engine import read_json_lines
from pencil.presets import preset

NOT_RUN = "not run"


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

**Run here as in the paper: {run} of {total} results.**{beside} The experiments need a GPU, and the machine
behind these pages has none; the images of CIFAR-100, CUB-200 and Clothing1M were not available there either. Below are
first our own measurements on smaller problems, then every figure of Tables 2 to 6 and Figures 2 and 3 of Yi & Wu (CVPR
2019) with the command that runs the experiment and an estimate of its cost. A number is a measurement of ours only if
it says so.
"""

SHORTER = """
Runs [at a shorter schedule](#the-papers-experiments-at-a-shorter-schedule): {count}.
They do not count as reproduced."""

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


def gpu_hours(name: str, assumed: Mapping[str, Any]) -> float:
    """Hours of one run, by assumed speed: epochs × (trained + evaluated / 3) images."""
    images: float = assumed["train"] + assumed["evaluated"] / 3
    speed: float = assumed["images_per_second"]
    return total_epochs(preset(name, "").phases) * images / speed / 3600


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
