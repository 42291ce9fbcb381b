"""A table of image files with their labels: CSV, JSON lines, Parquet or Arrow.

Columns: ``path``, ``label``; optional ``split``, ``trusted``, and votes as ``votes`` ("cat:3 dog:2", in
Parquet also a list of counts) or as one column ``votes_<class>`` per class. Other names for path and label, such as
``filename`` and ``class``, are taken too where only one fits.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from pencil.data.columns import ColumnFile, open_columns
from pencil.data.examples import Splits, Unlabelled
from pencil.data.readers.folder import ImageFiles
from pencil.data.readers.labelled import Labelled, read_unlabelled
from pencil.data.readers.rows import LABEL_ROLES, cell_text, find_roles
from pencil.data.tables import Cells, listed
from pencil.errors import DataError
from pencil.places import remedy, stays_within
from pencil.reading import is_file

ROLES = ("path", *LABEL_ROLES)


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
    file = open_columns(Path(path))
    roles = find_roles(file, ROLES, columns or {})
    if "path" not in roles.values():
        raise DataError(
            f"{path}: found the columns {listed(file.names)}, and none of image files; name it: "
            f"--set data.columns.path=NAME{_other_way(file.names, file)}"
        )
    folder = Path(path).parent if root is None else Path(root)
    found = Labelled(file, roles, "path", class_names)
    found.read(_Paths(file, roles, folder, allow))
    found.check(on_error)
    return found.splits(ImageFiles(found.ids, size, channels, folder), on_error, test_split)


def read_paths_alone(
    path: Path, size: int | None = None, channels: int = 3, columns: Mapping[str, str] | None = None
) -> Unlabelled | None:
    """The images of a table that has ``path`` but neither labels nor votes; None of another table."""
    file = open_columns(path)
    roles = find_roles(file, ROLES, columns or {}, needs_label=False)
    if "path" not in roles.values():
        return None
    ids = read_unlabelled(file, roles, _Paths(file, roles, path.parent, ()), "path")
    return None if ids is None else Unlabelled(ImageFiles(ids, size, channels, path.parent), ids)


class _Paths:
    """The paths of rows, which are also their ids."""

    def __init__(
        self, file: ColumnFile, roles: Mapping[str, str], folder: Path, allow: Sequence[str]
    ) -> None:
        self.names = [name for name, role in roles.items() if role == "path"]
        self._file, self._folder, self._allow = file, folder, allow

    def problem(self, cells: Cells) -> str | None:
        """Whether the file exists, and is inside its folder."""
        cell, folder = cells.get(self.names[0]), self._folder
        if isinstance(cell, dict | bytes):
            raise DataError(
                f"{self._file.path}: column {self.names[0]!r} holds images, not their names"
                f"{_other_way(['image'], self._file)}"
            )
        name = cell_text(cell)
        if not name:
            return "is empty"
        if not stays_within(name, folder, self._allow):
            where = remedy(str(Path(os.path.normpath(folder.absolute() / name)).parent))
            return f"{name!r} is outside {folder}; {where}"
        if not is_file(folder / name):
            hint = "; paths are written with /" if "\\" in name else ""
            return f"no file {name[:200]!r} in {folder}{hint}"
        return None

    def add(self, cells: Cells) -> None:
        """Nothing more is kept."""


def _other_way(columns: Sequence[str], file: ColumnFile) -> str:
    """What to do with a table that is not one of image files."""
    inside = {"image", "img"} & {name.lower() for name in columns}
    if file.path.suffix.lower() == ".parquet" and inside:
        return f"; to read its images run: pencil index {file.path} --out INDEX"
    return "; for texts or a table of numbers: --set data.kind=text or --set data.kind=table"
