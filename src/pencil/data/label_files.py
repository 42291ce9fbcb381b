"""Label files laid over a data set: one label per row, in the rows' order or named by id.

N: rows of the data set. C: classes.
"""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pencil.data.arrays import check_packed, load_array, npz_keys
from pencil.data.tables import find_column, listed, read_csv
from pencil.errors import DataError
from pencil.reading import MB, open_plain, read_text

_TEXT_BYTES = 4096 * MB  # labels of a thousand million rows
_FORMATS = ".csv, .npy, .npz, .pt, .pth, .txt"


def read_label_file(
    path: str | Path,
    key: str | None = None,
    *,
    ids: Sequence[str] | None = None,
    class_names: Sequence[str] | None = None,
) -> Tensor:
    """Read one class index per row from a file.

    Args:
        path: A ``.npy``, ``.npz``, ``.csv``, ``.txt``, or ``.pt`` (CIFAR-N's own) file.
        key: Which array of an ``.npz`` or ``.pt``, or which column of a ``.csv``. May be left out where there
            is only one; a ``.csv`` with several has ``label``.
        ids: The data set's ids (N,). With them a ``.csv`` that has an ``id`` column is put in their order,
            and any other file must have as many rows.
        class_names: Lets a ``.csv`` name its classes; without them labels are whole numbers.

    Returns:
        (N,) int64.
    """
    path = Path(path)
    match path.suffix.lower():
        case ".csv":
            return _read_csv(path, key, ids, class_names)
        case ".txt":
            labels = _parse(_lines(path), path, first_row=1, names=None)
        case ".npy":
            labels = _as_labels(load_array(path), path)
        case ".npz":
            labels = _as_labels(load_array(path, _pick(npz_keys(path), key, path)), path)
        case ".pt" | ".pth":
            labels = _read_pt(path, key)
        case suffix:
            raise DataError(
                f"{path}: cannot read labels from {suffix or 'a file without a suffix'}; use {_FORMATS}"
            )
    return _fitting(labels, ids, path)


def write_label_file(
    path: str | Path,
    ids: Sequence[str],
    labels: Tensor,
    class_names: Sequence[str],
    clean: Tensor | None = None,
) -> None:
    """Write labels so that ``read_label_file`` reads them back.

    Args:
        path: ``.csv`` (columns id, label, class, and clean where known) or ``.npy`` (the labels alone).
        ids: (N,) names of the rows.
        labels: (N,) class indices.
        class_names: (C,) names of the classes.
        clean: (N,) class indices before noise, where known; read back with ``key="clean"``.
    """
    path = Path(path)
    columns = {"labels": labels} if clean is None else {"labels": labels, "clean": clean}
    for field, values in columns.items():
        _check_writable(field, values, len(ids), len(class_names))
    if path.suffix.lower() == ".npy":
        np.save(path, labels.long().numpy(force=True))
    elif path.suffix.lower() == ".csv":
        _write_csv(path, ids, labels, class_names, clean)
    else:
        raise DataError(f"{path}: cannot write labels to {path.suffix!r}; use .csv or .npy")


def read_trusted_file(path: str | Path) -> dict[str, str | None]:
    """Labels that somebody made sure of: a class name for each id, None where the row shall be left out.

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
    cells = [dict(zip(header, row, strict=False)) for row in body]
    _check_trusted(cells, header, name, path)
    return {
        row[name]: None if row.get("decision") == "dropped" else row[label]
        for row in cells
        if not decided or row["decision"]
    }


def _check_trusted(cells: list[dict[str, str]], header: list[str], name: str, path: Path) -> None:
    seen: set[str] = set()
    for number, row in enumerate(cells, start=2):
        if len(row) != len(header):
            raise DataError(
                f"{path}, row {number}: {len(row)} cells, but {len(header)} columns; fix that row"
            )
        if row[name] in seen:
            raise DataError(
                f"{path}, row {number}: id {row[name]!r} occurs more than once; give it one label"
            )
        seen.add(row[name])


def _pick(found: Iterable[str], key: str | None, path: Path) -> str:
    names = list(found)
    if key is None and len(names) == 1:
        return names[0]
    if key not in names or key is None:
        asked = "it holds several arrays; choose one" if key is None else f"no array {key!r}"
        raise DataError(f"{path}: {asked} with key=...; found {listed(names)}")
    return key


def _as_labels(array: NDArray[Any], path: Path) -> Tensor:
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]  # a column of labels is as good as a list
    if array.ndim != 1:
        raise DataError(
            f"{path}: labels must have one dimension (N,), found shape {array.shape}; save a label per row"
        )
    if array.dtype.kind not in "biuf":
        raise DataError(
            f"{path}: labels must be whole class indices, found values of type {array.dtype}; number the classes from 0"
        )
    bad = ~(np.abs(array) < 2**62) | (array != np.rint(array)) if array.dtype.kind == "f" else array > 2**62
    if array.dtype.kind != "b" and bad.any():
        row = int(bad.argmax())
        raise DataError(
            f"{path}: labels must be whole class indices, found {array[row]} in row {row}; fix that row"
        )
    return torch.from_numpy(array.astype(np.int64))


def _fitting(labels: Tensor, ids: Sequence[str] | None, path: Path) -> Tensor:
    if ids is not None and len(ids) != len(labels):
        raise DataError(f"{path}: {len(labels)} labels for {len(ids)} examples; they must be as many")
    return labels


def _read_pt(path: Path, key: str | None) -> Tensor:
    content = _load_pt(path)
    if isinstance(content, Mapping):
        named = {str(name): value for name, value in content.items()}
        content = named[_pick(named, key, path)]
    elif key is not None:
        raise DataError(f"{path}: holds a {type(content).__name__}, not a dictionary; leave out key={key!r}")
    if isinstance(content, Tensor):
        content = content.numpy(force=True)
    if not isinstance(content, np.ndarray | list | tuple):
        raise DataError(f"{path}: expected an array of labels, found a {type(content).__name__}")
    return _as_labels(_array(content, path), path)


def _array(values: Any, path: Path) -> NDArray[Any]:
    try:
        return np.asarray(values)
    except ValueError as error:
        raise DataError(f"{path}: labels are not one array ({error})") from error


def _load_pt(path: Path) -> Any:
    """Always weights_only. CIFAR-N's files hold numpy arrays, so numpy's array rebuilding is let through."""
    try:
        with open_plain(path) as file, torch.serialization.safe_globals(_numpy_globals()):
            with zipfile.ZipFile(file) as archive:  # also refuses what torch wrote before it wrote archives
                for member in archive.infolist():
                    check_packed(member.compress_size, member.file_size, member.filename)
            file.seek(0)
            return torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file can raise nearly anything
        reason = str(error).partition("\n")[0]
        raise DataError(
            f"{path}: cannot read it safely ({reason}); save the labels as .npy or as tensors instead"
        ) from error


def _numpy_globals() -> list[Any]:
    """What rebuilds an array of numbers, under the names numpy 1 and numpy 2 write into files."""
    rebuild = np.empty(0).__reduce__()[0]
    named = [(rebuild, f"numpy.{core}.multiarray._reconstruct") for core in ("core", "_core")]
    types = [type(np.dtype(code)) for code in ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8")]
    return [*named, np.ndarray, np.dtype, *types]


def _lines(path: Path) -> list[str]:
    """The lines of a text file without blank ones at its end."""
    return read_text(path, limit=_TEXT_BYTES).rstrip().splitlines()


def _rows(path: Path) -> list[list[str]]:
    """The rows of a CSV that hold anything. surrogateescape: ids may be file names that are not UTF-8."""
    return read_csv(path, errors="surrogateescape")


def _read_csv(
    path: Path, key: str | None, ids: Sequence[str] | None, class_names: Sequence[str] | None
) -> Tensor:
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
    labels = _parse([row[column] for row in body], path, first_row=first_row, names=class_names)
    named = find_column(header, "id", path)
    if ids is None or named is None:
        return _fitting(labels, ids, path)
    return labels[_order([row[header.index(named)] for row in body], ids, path)]


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


def _parse(cells: list[str], path: Path, *, first_row: int, names: Sequence[str] | None) -> Tensor:
    """Class indices from names or whole numbers; a name wins, for a class may be called "3"."""
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
    """(N,) the file's row for each of the data set's ids. The file may have more than is asked for."""
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


def _check_writable(field: str, values: Tensor, rows: int, classes: int) -> None:
    if values.shape != (rows,):
        raise DataError(f"{field} must have one class index per id: ({rows},), found {tuple(values.shape)}")
    if rows and not 0 <= int(values.min()) <= int(values.max()) < classes:
        raise DataError(
            f"{field} must lie in 0 to {classes - 1}, found {int(values.min())} to {int(values.max())}"
        )


def _write_csv(
    path: Path, ids: Sequence[str], labels: Tensor, class_names: Sequence[str], clean: Tensor | None
) -> None:
    header = ["id", "label", "class"] if clean is None else ["id", "label", "class", "clean"]
    known = None if clean is None else clean.tolist()
    with path.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        for row, label in enumerate(labels.tolist()):
            writer.writerow([ids[row], label, class_names[label], *([] if known is None else [known[row]])])
