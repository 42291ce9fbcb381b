"""This process under a limit, ports, waiting, and programs of the repository as modules."""

import contextlib
import importlib
import resource
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


@contextlib.contextmanager
def limited(name, value):
    """This process under one of the system's limits, such as ``RLIMIT_FSIZE``, for a moment."""
    which = getattr(resource, name)
    soft, hard = resource.getrlimit(which)
    resource.setrlimit(which, (value, hard))
    try:
        yield
    finally:
        resource.setrlimit(which, (soft, hard))


@contextlib.contextmanager
def imported(name):
    """A benchmark as a module; the benchmarks are programs, not a package, and leave no trace."""
    folder = str(ROOT / "benchmarks")
    sys.path.insert(0, folder)
    try:
        yield importlib.import_module(name)
    finally:
        sys.path.remove(folder)
        mine = (name, "common", "faults")
        for module in [loaded for loaded in sys.modules if loaded.partition(".")[0] in mine]:
            del sys.modules[module]
