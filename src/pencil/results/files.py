"""Reading and writing the files of a run: whole or not at all, sealed, with read errors that include a remedy."""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from pencil.durable import make_folder, replacing, write_text
from pencil.errors import ConfigError, RunError
from pencil.identity import SEAL, empty_seal, run_id, seal_file, seal_problem, sealed_json
from pencil.machine import fault_of
from pencil.reading import JSON_BYTES, open_plain, parse_json, read_bytes

MOST_WORDS = 300  # characters of a problem, since it may quote the file


@contextlib.contextmanager
def writing(path: Path, *endings: str, option: str = "--out") -> Iterator[Path]:
    """Write a file atomically: yield a temporary path that replaces ``path`` when the block succeeds.

    Args:
        path: The file to write.
        endings: The allowed file name extensions.
        option: The command-line option that named the path, for error messages.
    """
    if path.suffix.lower() not in endings:
        raise ConfigError(f"{option} {path}: the ending must be {' or '.join(endings)}; change it")
    try:
        make_folder(path.parent)
        with replacing(path) as partial:
            yield partial
    except OSError as error:
        raise ConfigError(
            f"{option} {path}: cannot be written ({fault_of(error) or error.strerror or error}); choose another place"
        ) from error


def write_record(path: Path, values: Mapping[str, Any], **options: Any) -> None:
    """Write a JSON object into a run, sealed; ``options`` are those of ``json.dumps``."""
    owner = run_id(path.parent)
    write_text(
        path, json.dumps(values, **options) + "\n" if owner is None else sealed_json(values, owner, **options)
    )


def write_tensors(path: Path, tensors: Mapping[str, Tensor], owner: str | None) -> None:
    """Write a safetensors file, sealed for the run with this id."""
    with replacing(path) as partial:
        whole = {name: value.contiguous() for name, value in tensors.items()}
        save_file(whole, partial, None if owner is None else {SEAL: empty_seal(owner)})
        if owner is not None:
            seal_file(partial)


def read_json(path: Path, form: Any = dict[str, Any], *, remedy: str | None = None) -> dict[str, Any]:
    """Read a JSON object from a run's file, validated against a pydantic-compatible type."""
    read_record(path, form, remedy=remedy)
    values: dict[str, Any] = parse_json(path.read_bytes(), source=path, error=RunError)
    return {name: value for name, value in values.items() if name != SEAL}


def read_record(path: Path, form: Any, *, remedy: str | None = None) -> Any:
    """Read a JSON file of a run as an instance of the given type."""
    try:
        content = read_bytes(path, limit=JSON_BYTES, error=RunError)
        found = _checker(form).validate_json(content, strict=True)
    except RunError as error:
        raise damaged(path, error, remedy) from error
    except ValidationError as error:
        raise damaged(path, _first_mistake(error), remedy) from error
    check_whole(path, run_id(path.parent), remedy)
    return found


@cache
def _checker(form: Any) -> TypeAdapter[Any]:
    return TypeAdapter(form)


def _first_mistake(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    field = ".".join(map(str, first["loc"]))
    return f"{field}: {first['msg']}" if field else first["msg"]


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read a safetensors file of a finished run."""
    check_plain(path)
    try:
        found = load_file(path)
    except (OSError, SafetensorError) as error:
        raise damaged(path, error) from error
    check_whole(path, run_id(path.parent))
    return found


def check_whole(path: Path, owner: str | None, remedy: str | None = None) -> None:
    """Check that a file is what was written for the run with this id."""
    problem = seal_problem(path, owner)
    if problem is not None:
        raise damaged(path, problem, remedy)


def check_plain(path: Path) -> None:
    """Reject pipes and devices before a library opens the file by name and waits for them."""
    try:
        open_plain(path, error=RunError).close()
    except RunError as error:
        raise damaged(path, error) from error


def damaged(path: Path, problem: object, remedy: str | None = None) -> RunError:
    """The error for an unreadable file. By default its remedy rewrites the results from the last checkpoint."""
    # The cause of an error of open_plain, whose own words and remedy are for other files.
    cause = getattr(problem, "__cause__", None)
    words = str(getattr(cause, "strerror", None) or problem).removeprefix(f"{path}: ")[:MOST_WORDS]
    if isinstance(cause, PermissionError):
        remedy = f"allow it with: chmod u+r {shlex.quote(str(path))}"
    folder = next((place for place in path.parents[:2] if (place / "config.toml").exists()), path.parent)
    summary, run = shlex.quote(str(folder / "summary.json")), shlex.quote(str(folder))
    again = f"write the results again with: rm -f {summary} && pencil resume {run}"
    return RunError(f"{path} cannot be read ({words}); {remedy or again}")
