"""A table of image files with their labels: CSV or Parquet.

Columns: ``path``, ``label``; optional ``split``, ``trusted``, and votes as ``votes`` ("cat:3 dog:2", in
Parquet also a list of counts) or as one column ``votes_<class>`` per class. Other names for path and label, such as
``filename`` and ``class``, are taken too where only one fits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import torch

from pencil.data.examples import Examples, Splits, Unlabelled
from pencil.data.readers.folder import TEST_SPLITS, ImageFiles
from pencil.data.readers.manifest_rows import (
    Problems,
    Row,
    cell_text,
    check_paths,
    class_index,
    has_labels,
    parse_table,
    read_table,
)
from pencil.errors import DataError
from pencil.stores import GivenLabels

_MOST_VOTES = 1 << 28
"""The most rows times classes with votes: every row then holds a share of every class."""


def read_manifest(
    path: str | Path,
    *,
    root: str | Path | None = None,
    class_names: Sequence[str] | None = None,
    size: int | None = None,
    channels: int = 3,
    test_split: str | None = None,
    allow: Sequence[str] = (),
    on_error: Literal["error", "skip"] = "error",
) -> Splits:
    """Read examples from a table.

    A row's given label is its votes where it has any, else its ``label``; where the row is trusted, the other
    way round.

    Args:
        path: ``.csv`` or ``.parquet``.
        root: Folder of the table's paths; the table's own without it.
        class_names: (C,) the classes in order; ``label`` may then also be an index into them, and lists of
            votes follow their order. Without them the names in the table, sorted, numbers by value.
        size: Height and width to resize images to, or None if all have one size already.
        channels: 3 for RGB, 1 for grey.
        test_split: The split to test on; by default the first of test, val, valid, validation in the table.
        allow: Other folders where images may be, see ``pencil.places``.
        on_error: "error": rows with mistakes raise an error; "skip": they are left out and listed in ``skipped_rows``.

    Returns:
        Train rows and, where there are any, test rows, in the table's order; ids are the paths as written.
    """
    path = Path(path)
    folder = path.parent if root is None else Path(root)
    problems = Problems(path)
    rows = parse_table(read_table(path), folder, class_names, allow, problems)
    bad = problems.by_row
    if on_error == "error" or len(bad) == len(rows):
        problems.check()
    rows = [row for number, row in enumerate(rows, start=1) if number not in bad]
    names = _class_names(rows) if class_names is None else tuple(class_names)
    labels = _labels(rows, class_index(names, given=class_names is not None), len(names), path)
    ids = [row.path for row in rows]
    whole = Examples(ImageFiles(ids, size, channels, folder), labels, names, ids)
    skipped = {f"row {number}": bad[number] for number in sorted(bad)}
    return replace(_splits(whole, [row.split for row in rows], test_split, path), skipped_rows=skipped)


def read_paths_alone(path: Path, size: int | None = None, channels: int = 3) -> Unlabelled | None:
    """The images of a table that has ``path`` but neither labels nor votes; None of another table."""
    table, problems = read_table(path), Problems(path)
    if "path" not in table[0] or has_labels(table[0]):
        return None
    rows = [Row(cell_text(cells["path"]), "", {}, "", trusted=False) for cells in table]
    check_paths(rows, path.parent, (), problems)
    problems.check()
    ids = [row.path for row in rows]
    return Unlabelled(ImageFiles(ids, size, channels, path.parent), ids)


def _class_names(rows: list[Row]) -> tuple[str, ...]:
    found = {name for row in rows for name in (row.label, *row.votes) if name}
    numbers = all(len(name) < 19 and name.removeprefix("-").isdecimal() for name in found)
    return tuple(sorted(found, key=int) if numbers else sorted(found))


def _labels(rows: list[Row], index: Mapping[str, int], classes: int, path: Path) -> GivenLabels:
    """Indices (N,), or distributions (N, C) as soon as one row has votes."""
    trusted = torch.tensor([row.trusted for row in rows]) if any(row.trusted for row in rows) else None
    by_votes = [bool(row.votes) and not (row.trusted and row.label) for row in rows]
    if not any(by_votes):
        return GivenLabels.of(torch.tensor([index[row.label] for row in rows]), classes, trusted)
    if len(rows) * classes > _MOST_VOTES:
        raise DataError(
            f"{path}: votes of {len(rows):,} rows for {classes:,} classes take too much memory; give labels, or fewer "
            "classes"
        )
    counts = torch.zeros(len(rows), classes)
    for number, row in enumerate(rows):
        for name, count in (row.votes if by_votes[number] else {row.label: 1.0}).items():
            counts[number, index[name]] += count
    return GivenLabels.of(counts, classes, trusted)


def _splits(whole: Examples, splits: list[str], test_split: str | None, path: Path) -> Splits:
    present = sorted(set(splits))
    for wanted in ("train", test_split):
        if wanted is not None and wanted not in present:
            raise DataError(f"{path}: no row has {wanted!r} in column 'split'; found {', '.join(present)}")
    if present == ["train"]:
        return Splits(whole)
    test = test_split or next(name for name in TEST_SPLITS if name in present)
    parts = [
        torch.tensor([row for row, name in enumerate(splits) if name == part]) for part in ("train", test)
    ]
    return Splits(*(whole.subset(indices) for indices in parts))
