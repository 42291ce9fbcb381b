"""Files of a run, and tables for people: written whole or not at all, read with an error that says what to do."""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from pencil.durable import make_folder, replacing
from pencil.errors import ConfigError, RunError


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


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file of a finished run."""
    try:
        values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise damaged(path, error) from error
    return values


def read_tensors(path: Path) -> dict[str, Tensor]:
    """A safetensors file of a finished run."""
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise damaged(path, error) from error


def damaged(path: Path, problem: object) -> RunError:
    """What to do about a result that cannot be read: a finished run's last checkpoint can write it again."""
    summary, run = shlex.quote(str(path.parent / "summary.json")), shlex.quote(str(path.parent))
    return RunError(
        f"{path} cannot be read ({problem}); write the results again with: rm -f {summary} && pencil resume {run}"
    )
