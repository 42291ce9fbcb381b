"""Files of a run, and tables for people: written whole or not at all, read with an error that says what to do."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from pencil.durable import make_folder, replacing
from pencil.errors import ConfigError, RunError
from pencil.reading import JSON_BYTES, open_plain, parse_json, read_bytes

MOST_WORDS = 300  # characters of a problem: it may quote the file


@contextlib.contextmanager
def writing(path: Path, *endings: str, option: str = "--out") -> Iterator[Path]:
    """Where to write so that ``path`` is whole in the end, or as it was before; refuses other endings."""
    if path.suffix.lower() not in endings:
        raise ConfigError(f"{option} {path}: the ending must be {' or '.join(endings)}")
    try:
        make_folder(path.parent)
        with replacing(path) as partial:
            yield partial
    except OSError as error:
        raise ConfigError(
            f"{option} {path}: cannot be written ({error.strerror or error}); choose another place"
        ) from error


def read_json(path: Path, form: Any = dict[str, Any], *, remedy: str | None = None) -> dict[str, Any]:
    """A JSON file of a run: an object of a form that pydantic can check."""
    read_record(path, form, remedy=remedy)
    values: dict[str, Any] = parse_json(path.read_bytes(), source=path, error=RunError)
    return values


def read_record(path: Path, form: Any, *, remedy: str | None = None) -> Any:
    """A JSON file of a run as the record it was written from."""
    try:
        content = read_bytes(path, limit=JSON_BYTES, error=RunError)
        return _checker(form).validate_json(content, strict=True)
    except RunError as error:
        raise damaged(path, error, remedy) from error
    except ValidationError as error:
        raise damaged(path, _first_mistake(error), remedy) from error


@cache
def _checker(form: Any) -> TypeAdapter[Any]:
    return TypeAdapter(form)


def _first_mistake(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    field = ".".join(map(str, first["loc"]))
    return f"{field}: {first['msg']}" if field else first["msg"]


def read_tensors(path: Path) -> dict[str, Tensor]:
    """A safetensors file of a finished run."""
    check_plain(path)
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise damaged(path, error) from error


def check_plain(path: Path) -> None:
    """Refuse what is no plain file, for libraries that open by name and would wait for a pipe."""
    try:
        open_plain(path, error=RunError).close()
    except RunError as error:
        raise damaged(path, error) from error


def damaged(path: Path, problem: object, remedy: str | None = None) -> RunError:
    """What to do about a file that cannot be read: a finished run's last checkpoint can write its results again."""
    summary, run = shlex.quote(str(path.parent / "summary.json")), shlex.quote(str(path.parent))
    again = f"write the results again with: rm -f {summary} && pencil resume {run}"
    words = str(problem).removeprefix(f"{path}: ")[:MOST_WORDS]
    return RunError(f"{path} cannot be read ({words}); {remedy or again}")
