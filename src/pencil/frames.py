"""Train from Python on data as it is at hand: a file, a data frame of pandas or polars, a Hugging Face data set.

    run = pencil.train(frame, "runs/first", text="question", label="kind")

Rows in memory are written into the run's folder as JSON lines, so that report, review and resume can read them again.
No package is imported for it: a data frame brings its own.
"""

from __future__ import annotations

import filecmp
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pencil.config import RunConfig
from pencil.configure import apply_settings, choose_encoder, train_config
from pencil.data.recognise import named
from pencil.durable import make_folder, replacing
from pencil.engine import Listener, Policy
from pencil.errors import ConfigError, DataError, RunError
from pencil.notebook import Run
from pencil.places import allowing
from pencil.reading import is_file
from pencil.run import RunDirectory
from pencil.run import train as train_config_of_run
from pencil.run.directory import ROWS


def train(
    data: Any,
    out: str | Path,
    listeners: Sequence[Listener] = (),
    *,
    label: str | None = None,
    text: str | None = None,
    columns: Mapping[str, str] | None = None,
    embed: str | None = None,
    settings: Mapping[str, Any] | None = None,
    policy: Policy | None = None,
) -> Run:
    """Train a new run, from the first step to the last or to a signal, and return it as ``open_run`` does.

    Args:
        data: All settings as a ``RunConfig``; or a path, a pandas or polars data frame, a Hugging Face ``Dataset`` or
            ``DatasetDict``, with settings that suit it.
        out: The folder for the run; it must not contain one.
        listeners: Receive the events of training.
        label: The column of labels, if its name does not say so.
        text: The column of texts, if its name does not say so.
        columns: Other columns by role: ``id``, ``split``, ``trusted``, ``features``, ``path``.
        embed: The encoder for images or texts; see ``pencil train --embed``.
        settings: Other settings by name, such as ``{"seed": 1, "train.batch_size": 64}``.
        policy: Decides at the end of each epoch how the run continues; see ``pencil.engine.policy``.
    """
    roles = {**(columns or {}), **({"label": label} if label else {}), **({"text": text} if text else {})}
    if isinstance(data, RunConfig):
        config = _changed(data, settings or {}, embed=embed, **roles)
        return Run(train_config_of_run(config, out, listeners, policy=policy))
    is_path = isinstance(data, str | Path)
    path = str(data) if is_path else str(write_rows(data, Path(out), columns=roles))
    pairs = (
        *([("data.kind", "text")] if text else []),
        *((f"data.columns.{role}", name) for role, name in roles.items()),
        *_pairs(settings or {}),
    )
    here = [] if is_path else [str(Path.cwd())]  # where the image files of a data frame are looked for
    with allowing(here):
        embed = choose_encoder(path, embed, settings=pairs)[0]
        config = train_config(path, None, None, embed=embed, settings=pairs)
        return Run(train_config_of_run(config, out, listeners, policy=policy))


def _changed(config: RunConfig, settings: Mapping[str, Any], **others: str | None) -> RunConfig:
    """All settings at once, with some changed; what says how data is read is one of them already."""
    given = [name for name, value in others.items() if value is not None]
    if given:
        raise ConfigError(f"{given[0]}: data is a RunConfig, which holds all settings; set it there")
    table = config.table()
    apply_settings(table, tuple(_pairs(settings)))
    return RunConfig.of(table)


def _pairs(settings: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Settings by name; a whole section given as a mapping is taken apart."""
    for name, value in settings.items():
        if isinstance(value, Mapping) and "." not in name:
            yield from ((f"{name}.{inner}", each) for inner, each in value.items())
        else:
            yield name, value


def write_rows(data: Any, out: Path, *, columns: Mapping[str, str] | None = None) -> Path:
    """Write rows in memory into the folder of a run, one JSON object a line; returns the absolute path.

    ``columns`` names columns by role. Image files in the current folder get their absolute paths.

    Every rank writes the same rows and replaces the file as a whole, so that no rank reads a part of it. So do workers
    that torchrun restarted.

    Raises:
        RunError: The folder contains a run, of another job or on other rows.
    """
    continues = RunDirectory(out).is_of_this_job
    if not continues:
        RunDirectory.vacant(out)
    make_folder(out)
    path = (out / ROWS).absolute()
    with replacing(path) as partial:
        with partial.open("w", encoding="utf-8") as file:
            for row in _with_places(rows_of(data), columns or {}):
                file.write(json.dumps(row, ensure_ascii=True, allow_nan=False) + "\n")
        if continues and path.exists() and not filecmp.cmp(partial, path, shallow=False):
            raise RunError(
                f"{out} contains a run of this job on other rows; choose another out, or use the same rows"
            )
    return path


def _with_places(rows: Iterable[dict[str, Any]], columns: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yield rows whose image files can be found from any folder; others are not changed."""
    column = None
    for number, row in enumerate(rows):
        column = _paths_in(row, columns) if not number else column
        yield {**row, column: _placed(row[column])} if column in row else row


def _placed(value: Any) -> Any:
    """The absolute path of a file in the current folder; anything else as it is."""
    return str(Path(value).absolute()) if isinstance(value, str) and value and is_file(Path(value)) else value


def _paths_in(names: Iterable[str], columns: Mapping[str, str]) -> str | None:
    """The column of image files: the one that is named, or in rows without texts the one that is called so."""
    if columns.get("path"):
        return columns["path"]
    if "text" in columns or named(names, "text"):
        return None
    return next(iter(named(names, "path")), None)


def rows_of(data: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows of a data frame or data set by column, with plain values."""
    if isinstance(data, Mapping) and all(hasattr(part, "column_names") for part in data.values()):
        for split, part in data.items():
            yield from ({**row, "split": str(split)} for row in rows_of(part))
        return
    for row in _rows(data):
        yield {str(name): _plain(value, str(name)) for name, value in row.items()}


def _rows(data: Any) -> Iterable[Mapping[Any, Any]]:
    if hasattr(data, "iter_rows"):  # polars
        found: Iterable[Mapping[Any, Any]] = data.iter_rows(named=True)
        return found
    if hasattr(data, "itertuples"):  # pandas
        names = list(data.columns)
        return (dict(zip(names, row, strict=True)) for row in data.itertuples(index=False, name=None))
    if hasattr(data, "column_names") and hasattr(data, "features"):  # datasets
        return _named_classes(data)
    raise DataError(
        f"data is a {type(data).__name__}; give a path, a RunConfig, a pandas or polars data frame, or a Hugging Face "
        "Dataset"
    )


def _named_classes(data: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows of a Hugging Face data set, with class names in place of numbers."""
    classes = {name: kind.names for name, kind in data.features.items() if hasattr(kind, "names")}
    for row in data:
        named = {
            name: None if row[name] is None or row[name] < 0 else names[row[name]]
            for name, names in classes.items()
        }
        yield {**row, **named}


def _plain(value: Any, name: str) -> Any:
    """A value that JSON has; a number that is not finite is missing."""
    if hasattr(value, "tolist"):  # numpy's numbers and arrays
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(each, name) for each in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, bytes | dict) or hasattr(value, "getbands"):
        raise DataError(
            f"column {name!r} holds {type(value).__name__}; save images as files and give their paths, or leave it out"
        )
    text = str(value)
    return None if text in ("NaT", "<NA>") else text
