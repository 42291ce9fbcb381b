"""A grid's results: a JSON line per cell as it ends, put in the grid's order at the end; Parquet beside it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pencil.durable import sync, write_text
from pencil.engine import read_json_lines
from pencil.errors import RunError
from pencil.imports import need
from pencil.results import writing

RESULTS = "results.jsonl"
CELL = ("data", "noise", "method", "variant", "seed")
Line = dict[str, Any]
Key = tuple[Any, ...]


def key_of(line: Mapping[str, Any]) -> Key:
    """The cell that a line is of."""
    return tuple(line[name] for name in CELL)


def read_results(path: Path) -> list[Line]:
    """The lines of a results file, or of the folder with it; of several for a cell the last, of a cut one nothing."""
    file = path / RESULTS if path.is_dir() else path
    if not file.is_file():
        raise RunError(f"{path}: no results there; give the folder that pencil bench wrote, or its {RESULTS}")
    try:
        lines = read_json_lines(file)
        for line in lines:
            _Result.model_validate(line)
    except (ValidationError, RunError) as error:
        raise RunError(
            f"{file} does not hold results of pencil bench ({str(error)[:300]}); give its {RESULTS}"
        ) from error
    return list({key_of(line): line for line in lines}.values())


_Figure = Annotated[float, Field(allow_inf_nan=False)] | None


class _Result(BaseModel):
    """The fields that a line must have, with their types; it has more."""

    model_config = ConfigDict(strict=True)

    data: str
    noise: str
    method: str
    variant: str
    seed: int
    test_last: _Figure = None
    test_best: _Figure = None
    test_expert: _Figure = None
    validation_last: _Figure = None
    labels_before: _Figure = None
    labels_after: _Figure = None
    precision: _Figure = None
    recall: _Figure = None
    f1: _Figure = None
    auroc: _Figure = None
    average_precision: _Figure = None
    precision_at_100: _Figure = None
    precision_at_1_percent: _Figure = None
    posterior_labels_after: _Figure = None
    posterior_f1: _Figure = None
    posterior_auroc: _Figure = None
    posterior_average_precision: _Figure = None
    posterior_precision_at_100: _Figure = None
    posterior_precision_at_1_percent: _Figure = None
    calibration_error: _Figure = None
    seconds: _Figure = None
    forward_passes: _Figure = None


class ResultsFile:
    """Takes lines as they come; each is on disk when ``append`` returns."""

    def __init__(self, path: Path) -> None:
        self._path = path
        if path.is_file():
            whole = path.read_bytes()
            if not whole.endswith(b"\n"):  # cut by a crash
                write_text(path, whole[: whole.rfind(b"\n") + 1].decode("utf-8"))
        else:
            path.touch()
            sync(path.parent)

    def append(self, line: Line) -> None:
        """Add a line."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        sync(self._path)

    def put_in_order(self, cells: Iterable[Key]) -> list[Line]:
        """One line per cell, in the order of these cells; lines of others follow."""
        places = {key: number for number, key in enumerate(cells)}
        lines = read_results(self._path)
        lines.sort(key=lambda line: places.get(key_of(line), len(places)))
        write_text(self._path, "".join(json.dumps(line) + "\n" for line in lines))
        return lines


def write_parquet(path: Path, lines: Sequence[Line]) -> None:
    """All lines as a table; what is no plain value, such as the environment, as JSON."""
    arrow = need("pyarrow", extra="tables", purpose="write Parquet")
    parquet = need("pyarrow.parquet", extra="tables", purpose="write Parquet")
    plain = [{name: _plain(value) for name, value in line.items()} for line in lines]
    with writing(path, ".parquet") as partial:
        parquet.write_table(arrow.Table.from_pylist(plain), partial)


def _plain(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict | list) else value
