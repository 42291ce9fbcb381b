"""A grid's results: a JSON line per cell as it ends, put in the grid's order at the end; Parquet beside it.

Results of settings that a grid no longer has are kept in a file of their own, so that no table mixes old and new ones.
"""

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
OUTDATED = "outdated.jsonl"
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
    return _last_of_each(_checked_lines(file))


def _last_of_each(lines: Sequence[Line]) -> list[Line]:
    return list({key_of(line): line for line in lines}.values())


def _checked_lines(file: Path) -> list[Line]:
    """All whole lines of a file of results; none if there is no file."""
    try:
        lines = read_json_lines(file)
        for line in lines:
            _Result.model_validate(line)
        return lines
    except (ValidationError, RunError) as error:
        raise RunError(
            f"{file} does not hold results of pencil bench ({str(error)[:300]}); give its {RESULTS}"
        ) from error


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
            file.write(_text(line))
        sync(self._path)

    def set_aside(self, hashes: Mapping[Key, str]) -> int:
        """Move lines of other settings to ``OUTDATED``, and copy back what it has of these settings.

        Args:
            hashes: The hash of the settings of each cell. Lines of other cells stay.

        Returns:
            How many lines were moved.
        """
        place = self._path.with_name(OUTDATED)
        lines, aside = _checked_lines(self._path), _checked_lines(place)
        moved = [line for line in lines if _hash(line) != hashes.get(key_of(line), _hash(line))]
        kept = [line for line in lines if _hash(line) == hashes.get(key_of(line), _hash(line))]
        known = {key_of(line) for line in kept}
        missed = [line for line in aside if key_of(line) in hashes and key_of(line) not in known]
        back = [line for line in missed if _hash(line) == hashes[key_of(line)]]
        if moved:  # written first: a crash before the next write leaves a line in both files, not in none
            write_text(place, "".join(dict.fromkeys(map(_text, [*aside, *moved]))))
        if moved or back:
            write_text(self._path, "".join(map(_text, _last_of_each([*back, *kept]))))
        return len(moved)

    def put_in_order(self, cells: Iterable[Key]) -> list[Line]:
        """One line per cell, in the order of these cells; lines of others follow."""
        places = {key: number for number, key in enumerate(cells)}
        lines = read_results(self._path)
        lines.sort(key=lambda line: places.get(key_of(line), len(places)))
        write_text(self._path, "".join(map(_text, lines)))
        return lines


def _hash(line: Line) -> str | None:
    """The hash of a line's settings; None if it has none."""
    return line.get("config_hash")


def _text(line: Line) -> str:
    return json.dumps(line) + "\n"


def write_parquet(path: Path, lines: Sequence[Line]) -> None:
    """All lines as a table; what is no plain value, such as the environment, as JSON."""
    arrow = need("pyarrow", extra="tables", purpose="write Parquet")
    parquet = need("pyarrow.parquet", extra="tables", purpose="write Parquet")
    plain = [{name: _plain(value) for name, value in line.items()} for line in lines]
    with writing(path, ".parquet") as partial:
        parquet.write_table(arrow.Table.from_pylist(plain), partial)


def _plain(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict | list) else value
