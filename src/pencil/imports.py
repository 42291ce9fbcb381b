"""Imports on demand: optional packages, and users' objects by ``package.module:attribute``."""

from __future__ import annotations

import contextlib
import importlib
import traceback
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from pencil.errors import ConfigError, MissingExtraError, PencilError, RunError, did_you_mean
from pencil.machine import fault_of


def need(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import an optional package, or raise an error that says how to install it.

    Args:
        module: The module to import, e.g. ``"pyarrow.parquet"``.
        extra: The extra of this distribution that brings it.
        purpose: What it is needed for, as the end of "... is needed to".
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingExtraError(
            f"{package} is needed to {purpose}; install it with: pip install 'pencil-labels[{extra}]' ({error})"
        ) from error


def import_object(path: str, *, field: str) -> Any:
    """The object at an import path.

    Modules are looked up on ``sys.path``; add the current directory to it if modules there should be found.

    Args:
        path: ``"package.module:attribute"``; the attribute may be dotted.
        field: The setting that contains the path, for error messages.

    Raises:
        ConfigError: The object cannot be imported; names the field, the path and the remedy.
    """
    module_name, colon, attribute = path.partition(":")
    dotted = [*module_name.split("."), *attribute.split(".")]
    if not colon or not all(part.isidentifier() for part in dotted):
        raise ConfigError(f"{field} = {path!r} is not an import path; write it as 'package.module:attribute'")
    target: Any = _module(module_name, path, field)
    for name in attribute.split("."):
        target = _attribute(target, name, path, field)
    return target


def installed_objects(group: str) -> Iterator[tuple[str, Any]]:
    """Yield the entry points of a group in installed packages: name, and object or import error."""
    for entry in entry_points(group=group):
        try:
            yield entry.name, entry.load()
        except Exception as error:  # a package may fail in any way as it is imported
            yield entry.name, error


@contextlib.contextmanager
def users_code(field: str, path: str) -> Iterator[None]:
    """Turn any error of a user's own code into a ``ConfigError`` that names its location."""
    try:
        yield
    except PencilError:
        raise
    except Exception as error:  # a user's code may raise any error
        if words := fault_of(error):
            raise RunError(f"{field} = {path!r}: {words}") from error
        _, caller, *_, last = [*(frames := traceback.extract_tb(error.__traceback__)), frames[-1]]
        where = (
            ""
            if last.filename == caller.filename
            else f" (in {Path(last.filename).name}, line {last.lineno})"
        )
        raise ConfigError(
            f"{field} = {path!r} fails with {type(error).__name__}: {error}{where}; fix that code or its args"
        ) from error


def _module(name: str, path: str, field: str) -> ModuleType:
    importlib.invalidate_caches()  # the file may be newer than the interpreter's cache of its folder
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ConfigError(f"{field} = {path!r}: {_missing(name, error)}") from error
    except Exception as error:  # importing a user's module may raise any error
        raise ConfigError(
            f"{field} = {path!r}: importing {name} failed; fix that module ({type(error).__name__}: {error})"
        ) from error


def _missing(name: str, error: ModuleNotFoundError) -> str:
    """Describe what is missing: the module itself, or a module that it imports."""
    absent = error.name or name
    if name == absent or name.startswith(f"{absent}."):
        remedy = "run from the folder that contains it, add that folder to PYTHONPATH, or install it"
        return f"no module {absent!r} found; {remedy}"
    return f"module {name!r} imports {absent!r}, which is not installed; install it"


def _attribute(target: Any, name: str, path: str, field: str) -> Any:
    try:
        return getattr(target, name)
    except AttributeError as error:
        owner = getattr(target, "__name__", type(target).__name__)
        public = (known for known in dir(target) if not known.startswith("_"))
        hint = did_you_mean(name, public) or "; check the name after the colon"
        raise ConfigError(f"{field} = {path!r}: {owner} has no attribute {name!r}{hint}") from error
