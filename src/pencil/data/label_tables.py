"""Labels in CSV tables: by id or in the order of the rows, by class name or class number.

N: rows of the data set. C: classes.
"""

from __future__ import annotations

import csv
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pencil.data.examples import RowNumbers
from pencil.data.matching import all_ids, has_own_ids
from pencil.data.tables import find_column, listed, read_csv
from pencil.errors import DataError

WRITTEN = ("label", "clean")  # columns of class numbers in a table that this package writes


def read_trusted_file(path: str | Path) -> dict[str, str | None]:
    """Read verified labels: a class name for each id, None for rows to leave out.

    Args:
        path: A ``.csv`` with the columns ``id`` and ``label``, or the table that ``pencil labels`` writes of a reviewed
            run, of which only rows with a ``decision`` count.
    """
    path = Path(path)
    if path.suffix.lower() != ".csv" or not path.is_file():
        raise DataError(
            f"data.trusted: {path} is neither a reviewed run nor a .csv file with the columns id and label"
        )
    header, *body = _rows(path) or [[]]
    header = [name.strip() for name in header]
    decided = "decision" in header
    label = "suggested_label" if decided else find_column(header, "label", path)
    name = find_column(header, "id", path)
    if name is None or label is None or label not in header:
        raise DataError(f"{path}: found the columns {listed(header)}; expected id and label: rename them")
    _check_trusted(body, header, name, path)
    cells = [dict(zip(header, row, strict=True)) for row in body]
    return {
        row[name]: None if row.get("decision") == "dropped" else row[label]
        for row in cells
        if not decided or row["decision"]
    }


def _check_trusted(body: list[list[str]], header: list[str], name: str, path: Path) -> None:
    seen: set[str] = set()
    for number, row in enumerate(body, start=2):
        if len(row) != len(header):
            raise DataError(
                f"{path}, row {number}: {len(row)} cells, but {len(header)} columns; fix that row"
            )
        own = row[header.index(name)]
        if own in seen:
            raise DataError(f"{path}, row {number}: id {own!r} occurs more than once; give it one label")
        seen.add(own)


def read_label_table(
    path: Path, key: str | None, ids: Sequence[str] | None, class_names: Sequence[str] | None
) -> Tensor:
    """Class numbers (N,) from a CSV; see ``pencil.data.read_label_file`` for the arguments."""
    rows = _rows(path)
    if not rows:
        raise DataError(f"{path}: no rows; expected the columns id, label")
    header, body = _split_header(rows, class_names)
    column = _column(header, key, path)
    for number, row in enumerate(body, start=len(rows) - len(body) + 1):
        if len(row) != len(header):
            raise DataError(
                f"{path}, row {number}: {len(row)} cells, but {len(header)} columns: {listed(header)}; fix that row"
            )
    first_row = len(rows) - len(body) + 1
    names = None if header[column] in WRITTEN and _is_written(header, body, class_names) else class_names
    labels = parse_labels([row[column] for row in body], path, first_row=first_row, names=names)
    named = find_column(header, "id", path)
    if named is None:
        return check_count(labels, ids, path)
    found = [row[header.index(named)] for row in body]
    known = RowNumbers(len(found)) if ids is None else ids
    if has_own_ids(known) or set(found) in (set(known), set(all_ids(known))):
        return labels[_order(found, known, path)]
    _check_counted(found, named, known, path)
    return labels


def _check_counted(found: Sequence[str], named: str, ids: Sequence[str], path: Path) -> None:
    """Check that a file's ids count as many rows as there are from 1, in the order of the file, and say so."""
    if list(found) != [str(number) for number in range(1, len(ids) + 1)]:
        raise DataError(
            f"{path}: the column {named!r} ({listed(found[:3])}, ...) cannot be matched with {len(ids)} rows that have "
            "no ids, only numbers from 0; give the data ids, or drop the column if the labels are in the order of its "
            "rows"
        )
    warnings.warn(
        f"{path}: its ids count from 1, and the data has no ids: the labels are taken in the order of the file",
        stacklevel=5,
    )


def _split_header(
    rows: list[list[str]], class_names: Sequence[str] | None
) -> tuple[list[str], list[list[str]]]:
    """A single column may do without a header; it then begins with a label."""
    first = [cell.strip() for cell in rows[0]]
    if len(first) == 1 and (_is_whole(first[0]) or first[0] in (class_names or ())):
        return ["label"], rows
    return first, rows[1:]


def _column(header: list[str], key: str | None, path: Path) -> int:
    wanted = key or (find_column(header, "label", path) if len(header) > 1 else header[0])
    if wanted not in header or wanted is None:
        raise DataError(
            f"{path}: no column {key or 'label'!r}; found {listed(header)}; rename one, or name it as the key"
        )
    return header.index(wanted)


def _is_written(header: list[str], body: list[list[str]], class_names: Sequence[str] | None) -> bool:
    """Whether labels are numbers, as ``write_label_table`` writes them: their names stand beside them.

    Without that, a number that is the name of a class would be read as this class.
    """
    if class_names is None or not {"label", "class"} <= set(header):
        return False
    label, beside = header.index("label"), header.index("class")
    known = {str(number): name for number, name in enumerate(class_names)}
    return all(known.get(row[label].strip()) == row[beside].strip() for row in body)


def parse_labels(cells: list[str], path: Path, *, first_row: int, names: Sequence[str] | None) -> Tensor:
    """Class indices from names or whole numbers; a name comes first, since a class may be named "3"."""
    index = {name: number for number, name in enumerate(names or ())}
    labels = np.empty(len(cells), np.int64)
    for row, cell in enumerate(cells):
        text = cell.strip()
        if text not in index and not _is_whole(text):
            kind = "a class name or a class index" if names else "a whole class index"
            raise DataError(f"{path}, row {row + first_row}: label {text[:80]!r} is not {kind}; fix that row")
        labels[row] = index[text] if text in index else int(text)
    return torch.from_numpy(labels)


def _is_whole(text: str) -> bool:
    """A class index as digits; the length keeps it inside int64."""
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) < 19


def _order(found: list[str], ids: Sequence[str], path: Path) -> Tensor:
    """(N,) the file's row for each of the data set's ids. The file may have more rows than the data set."""
    row_of = {name: row for row, name in enumerate(found)}
    if len(row_of) != len(found):
        repeated = next(name for row, name in enumerate(found) if row_of[name] != row)
        raise DataError(f"{path}: id {repeated!r} occurs more than once; give each example one label")
    missing = [name for name in ids if name not in row_of]
    if missing:
        raise DataError(
            f"{path}: no label for {len(missing)} of {len(ids)} examples, first id {missing[0]!r}; give each one"
        )
    return torch.tensor([row_of[name] for name in ids], dtype=torch.int64)


def check_count(labels: Tensor, ids: Sequence[str] | None, path: Path) -> Tensor:
    """The labels; there must be one for every id."""
    if ids is not None and len(ids) != len(labels):
        raise DataError(f"{path}: {len(labels)} labels for {len(ids)} examples; they must be as many")
    return labels


def _rows(path: Path) -> list[list[str]]:
    """The rows of a CSV that hold anything. surrogateescape: ids may be file names that are not UTF-8."""
    return read_csv(path, errors="surrogateescape")


def write_label_table(
    path: Path, ids: Sequence[str], labels: Tensor, class_names: Sequence[str], clean: Tensor | None
) -> None:
    """Write ids, class numbers, class names and, where known, the class numbers before noise."""
    header = ["id", "label", "class"] if clean is None else ["id", "label", "class", "clean"]
    known = None if clean is None else clean.tolist()
    with path.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        for row, label in enumerate(labels.tolist()):
            writer.writerow([ids[row], label, class_names[label], *([] if known is None else [known[row]])])
