"""Kinds of data that a test adds, and that are gone after it."""

import contextlib

from pencil.kinds import table


@contextlib.contextmanager
def kinds_restored():
    """Whatever is registered within the block, also by packages on a path that was added, is forgotten after it."""
    before = dict(table._added)
    table._load_installed.cache_clear()
    try:
        yield
    finally:
        table._load_installed.cache_clear()
        table._added.clear()
        table._added.update(before)
        for changed in table._watchers:
            changed()
