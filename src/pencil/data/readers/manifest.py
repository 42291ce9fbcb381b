"""A table of image files with their labels: CSV, JSON lines, Parquet or Arrow.

Columns: ``path``, ``label``; optional ``split``, ``trusted``, and votes as ``votes`` ("cat:3 dog:2", in
Parquet also a list of counts) or as one column ``votes_<class>`` per class. Other names for path and label, such as
``filename`` and ``class``, are taken too where only one fits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from pencil.data.examples import Examples, Splits, Unlabelled
from pencil.data.readers.folder import ImageFiles
from pencil.data.readers.labelled import class_index, class_names_of, labels_of, splits_of
from pencil.data.readers.manifest_rows import check_paths, parse_table, read_table
from pencil.data.readers.rows import Problems, Row, cell_text, has_other_cells, is_labelled


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
    columns: Mapping[str, str] | None = None,
) -> Splits:
    """Read examples from a table.

    A row's given label is its votes where it has any, else its ``label``; where the row is trusted, the other
    way round.

    Args:
        path: The file, see ``pencil.data.columns``.
        root: Folder of the table's paths; the table's own without it.
        class_names: (C,) the classes in order; ``label`` may then also be an index into them, and lists of
            votes follow their order. Without them the names in the table, sorted, numbers by value.
        size: Height and width to resize images to, or None if all have one size already.
        channels: 3 for RGB, 1 for grey.
        test_split: The split to test on; by default the first of test, val, valid, validation in the table.
        allow: Other folders where images may be, see ``pencil.places``.
        on_error: "error": rows with mistakes raise an error; "skip": they are left out and listed in ``skipped_rows``.
        columns: The names of columns by role, if they are not the usual ones.

    Returns:
        Train rows and, where there are any, test rows, in the table's order; ids are the paths as written.
    """
    path = Path(path)
    folder = path.parent if root is None else Path(root)
    problems = Problems(path)
    rows = parse_table(read_table(path, columns), folder, class_names, allow, problems)
    bad = problems.by_row
    if on_error == "error" or len(bad) == len(rows):
        problems.check()
    rows = [row for number, row in enumerate(rows, start=1) if number not in bad]
    names = class_names_of(rows) if class_names is None else tuple(class_names)
    labels = labels_of(rows, class_index(names, given=class_names is not None), len(names), path)
    ids = [row.content for row in rows]
    whole = Examples(ImageFiles(ids, size, channels, folder), labels, names, ids)
    skipped = {f"row {number}": bad[number] for number in sorted(bad)}
    return replace(splits_of(whole, [row.split for row in rows], path, test_split), skipped_rows=skipped)


def read_paths_alone(
    path: Path, size: int | None = None, channels: int = 3, columns: Mapping[str, str] | None = None
) -> Unlabelled | None:
    """The images of a table that has ``path`` but neither labels nor votes; None of another table."""
    table, problems = read_table(path, columns, needs_label=False), Problems(path, can_skip=False)
    if "path" not in table[0] or any(map(is_labelled, table)):
        return None
    for number, cells in enumerate(table, start=1):
        has_other_cells(cells, number, "path", problems)
    rows = [Row(cell_text(cells.get("path")), "", {}, "", trusted=False) for cells in table]
    check_paths(rows, path.parent, (), problems)
    problems.check()
    ids = [row.content for row in rows]
    return Unlabelled(ImageFiles(ids, size, channels, path.parent), ids)
