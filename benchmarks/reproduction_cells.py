"""The cells of the paper's tables, the settings of our command for each, and the runs that were recorded for them.

``reproduction.py`` uses this.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pencil.config import RunConfig
from pencil.engine import read_json_lines
from pencil.presets import preset

PAPER = Path(__file__).parent / "reproduction.toml"
RESULTS = Path(__file__).parent / "results"
RECORDED = RESULTS / "reproduction.jsonl"
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


# Our commands


def command(cell: Cell, path: str) -> str:
    """What to type."""
    return " ".join(["pencil train", path, "--preset", cell.preset, *cell.flags])


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


def is_of(config: RunConfig, cell: Cell) -> bool:
    """Whether the settings are the cell's, but for what may differ: seed, store and how the machine is used."""
    return not cell.absent and fixed(config) == fixed(config_of(cell, config.data.path))


def fixed(config: RunConfig) -> dict[str, Any]:
    """The settings that decide what an experiment is."""
    table = {name: value for name, value in config.table().items() if name not in FREE}
    table["train"] = {name: value for name, value in table["train"].items() if name not in FREE_TRAIN}
    return table


# Runs of them


def recorded() -> list[Recorded]:
    """All runs that were recorded."""
    return [Recorded(**{**line, "flags": tuple(line["flags"])}) for line in read_json_lines(RECORDED)]


def add(run: Recorded) -> None:
    """Record one more run."""
    with RECORDED.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(run)) + "\n")
