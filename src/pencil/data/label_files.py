"""Label files that replace the labels of a data set: one label per row, in the order of the rows or by id.

N: rows of the data set. C: classes.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pencil.data.arrays import check_packed, load_array, npz_keys
from pencil.data.label_tables import check_count, parse_labels, read_label_table, write_label_table
from pencil.data.tables import listed
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
        ids: The data set's ids (N,). A ``.csv`` that has an ``id`` column is put in their order, and any other file
            must have as many rows. If they are row numbers, or None, a column ``id`` must hold the same numbers from 0,
            or count from 1 in the order of the file, which gives a warning.
        class_names: Lets a ``.csv`` name its classes; without them labels are whole numbers.

    Returns:
        (N,) int64.
    """
    path = Path(path)
    match path.suffix.lower():
        case ".csv":
            return read_label_table(path, key, ids, class_names)
        case ".txt":
            labels = parse_labels(_lines(path), path, first_row=1, names=None)
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
    return check_count(labels, ids, path)


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
        write_label_table(path, ids, labels, class_names, clean)
    else:
        raise DataError(f"{path}: cannot write labels to {path.suffix!r}; use .csv or .npy")


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
        array = array[:, 0]  # a column of labels is a list
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
    """Always weights_only. CIFAR-N's files hold numpy arrays, so numpy's functions that rebuild arrays are allowed."""
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


def _check_writable(field: str, values: Tensor, rows: int, classes: int) -> None:
    if values.shape != (rows,):
        raise DataError(f"{field} must have one class index per id: ({rows},), found {tuple(values.shape)}")
    if rows and not 0 <= int(values.min()) <= int(values.max()) < classes:
        raise DataError(
            f"{field} must be in 0 to {classes - 1}, found {int(values.min())} to {int(values.max())}"
        )
