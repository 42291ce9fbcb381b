"""The rows of a manifest: columns found, paths and classes checked."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pencil.data.columns import open_columns
from pencil.data.readers.labelled import class_index
from pencil.data.readers.rows import (
    LABEL_ROLES,
    VOTES,
    Problems,
    Row,
    by_role,
    find_roles,
    has_labels,
    needed_columns,
    parse_row,
)
from pencil.data.tables import Cells, listed
from pencil.errors import DataError
from pencil.places import remedy, stays_within
from pencil.reading import is_file

ROLES = ("path", *LABEL_ROLES)


def read_table(
    path: Path, columns: Mapping[str, str] | None = None, *, needs_label: bool = True
) -> list[dict[str, Any]]:
    """The rows by column, in which path and label have these names; ``columns`` names them by role.

    For ``needs_label`` see ``find_roles``.
    """
    file = open_columns(path)
    roles = find_roles(file, ROLES, columns or {}, needs_label=needs_label)
    kept, empty = needed_columns(file, roles), by_role(dict.fromkeys(file.names), roles)
    table = [empty | by_role(cells, roles) for cells in (file.rows(kept) if kept else [{}])]
    if not table:
        raise DataError(
            f"{path}: the table has no rows; expected the columns path and label, and a row per image"
        )
    return table


def parse_table(
    table: list[dict[str, Any]],
    folder: Path,
    class_names: Sequence[str] | None,
    allow: Sequence[str],
    problems: Problems,
) -> list[Row]:
    """Every row of the table; what is wrong with them is added to ``problems``."""
    _check_columns(table[0], problems.path)
    rows = [
        parse_row(number, cells, "path", class_names, problems) for number, cells in enumerate(table, start=1)
    ]
    check_paths(rows, folder, allow, problems)
    if class_names is None:
        _check_lists(table, rows, problems)
    else:
        _check_classes(rows, class_index(tuple(class_names), given=True), problems)
    return rows


def _check_columns(cells: Cells, path: Path) -> None:
    columns = [name for name in cells if name is not None]
    votes = [name for name in columns if name.startswith(VOTES)]
    if "path" not in columns or not has_labels(cells):
        raise DataError(
            f"{path}: found the columns {listed(columns)}; expected path and label (or votes): rename them, or "
            f"--set data.columns.path=NAME, --set data.columns.label=NAME{_other_way(columns, path)}"
        )
    if isinstance(cells["path"], dict | bytes):
        raise DataError(f"{path}: column 'path' holds images, not their names{_other_way(['image'], path)}")
    if "votes" in columns and votes:
        raise DataError(
            f"{path}: votes are given twice, in the columns votes and {votes[0]}; keep one of them"
        )


def _other_way(columns: Sequence[str], path: Path) -> str:
    """What to do with a table that is not one of image files."""
    inside = {"image", "img"} & {name.lower() for name in columns}
    if path.suffix.lower() == ".parquet" and inside:
        return f"; to read its images run: pencil index {path} --out INDEX"
    return "; for texts or a table of numbers: --set data.kind=text or --set data.kind=table"


def check_paths(rows: list[Row], folder: Path, allow: Sequence[str], problems: Problems) -> None:
    """Check that every file exists, is inside its folder and is named once: a path is its row's id."""
    first: dict[str, int] = {}
    for number, row in enumerate(rows, start=1):
        before = first.setdefault(row.content, number)
        if row.content and before != number:
            problems.add(
                number, "path", f"{row.content!r} is also in row {before}; write several labels as votes"
            )
        elif row.content and not stays_within(row.content, folder, allow):
            where = remedy(str(Path(os.path.normpath(folder.absolute() / row.content)).parent))
            problems.add(number, "path", f"{row.content!r} is outside {folder}; {where}")
        elif row.content and not is_file(folder / row.content):
            hint = "; paths are written with /" if "\\" in row.content else ""
            problems.add(number, "path", f"no file {row.content[:200]!r} in {folder}{hint}")


def _check_lists(table: list[dict[str, Any]], rows: list[Row], problems: Problems) -> None:
    """Lists of votes are by position, so without class names labels must be positions too."""
    lists = [cells["votes"] for cells in table if isinstance(cells.get("votes"), list)]
    widths = Counter(len(votes) for votes in lists if votes)  # an empty list is no votes
    if not widths:
        return
    width = widths.most_common(1)[0][0]
    places = {"", *map(str, range(width))}
    for number, (cells, row) in enumerate(zip(table, rows, strict=True), start=1):
        votes = cells.get("votes")
        if isinstance(votes, list) and votes and len(votes) != width:
            problems.add(number, "votes", f"{len(votes)} counts, where other rows have {width}")
        if row.label not in places:
            problems.add(
                number, "label", f"{row.label!r} is no position in a list of votes; give class_names"
            )


def _check_classes(rows: list[Row], index: Mapping[str, int], problems: Problems) -> None:
    for number, row in enumerate(rows, start=1):
        for column, names in (("label", [row.label] if row.label else []), ("votes", row.votes)):
            for name in names:
                if name not in index:
                    problems.add(number, column, f"{name!r} is neither in class_names nor an index into them")
